"""The group coordinator of this broker: groups without IO, the loop's one timer, the offsets' one thread."""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID, uuid4

from capture.log import CommittedOffset
from gateway.groups.config import GroupConfig
from gateway.groups.group import Group
from gateway.groups.groups import Groups
from gateway.groups.messages import (
    Description,
    Effect,
    Identity,
    Join,
    JoinAnswer,
    Summary,
    Sync,
    SyncAnswer,
)
from gateway.groups.offset_thread import Done, Offset, OffsetStore, OffsetThread, Partition
from gateway.groups.retention import Life, judge
from gateway.groups.state import GroupState
from gateway.groups.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

TopicIds = Callable[[str], UUID | None]
"""Finds the id of a topic that is served, by its name."""


class Coordinator:
    """Everything of consumer groups that a handler can ask. Belongs to the event loop's thread.

    `start` before the first request, `close` after the last.
    """

    def __init__(
        self,
        store: OffsetStore,
        config: GroupConfig | None = None,
        *,
        topic_id: TopicIds = lambda name: None,
        steady_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self.config: Final = config or GroupConfig()
        self._groups = Groups(self.config, new_id)
        self._topic_id = topic_id
        self._steady_ms = steady_ms
        self._wall_ms = wall_ms
        self._tickets = itertools.count(1)
        self._joins: dict[int, Callable[[JoinAnswer], None]] = {}
        self._syncs: dict[int, Callable[[SyncAnswer], None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._cleanup: asyncio.TimerHandle | None = None
        self._store = store
        self._thread: OffsetThread | None = None
        self._committed: dict[str, int] = {}
        """The groups that have committed offsets, or are just committing their first; how often they did."""

    # Life.

    def start(self) -> None:
        """Begin, in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._committed = dict.fromkeys(self._store.groups(), 0)
        self._thread = OffsetThread(
            self._store, now_ms=self._wall_ms, call_in_loop=self._loop.call_soon_threadsafe
        )
        self._thread.start()
        if self.config.offsets_retention_ms >= 0:
            # Until members of before the start had time to join again, nothing is known of any group.
            self._schedule_cleanup(self.config.max_session_timeout_ms)

    async def close(self) -> None:
        """Store what was given until now; parked requests stay unanswered, their connections are closing."""
        for timer in (self._timer, self._cleanup):
            if timer is not None:
                timer.cancel()
        self._timer = self._cleanup = None
        if self._thread is not None and self._loop is not None:
            await self._loop.run_in_executor(None, self._thread.close)

    @property
    def offset_commits(self) -> int:
        """Number of OffsetCommits stored since the start."""
        return self._thread.commits if self._thread is not None else 0

    @property
    def offset_commit_batches(self) -> int:
        """Number of transactions that they took."""
        return self._thread.batches if self._thread is not None else 0

    # Membership.

    def join(self, group_id: str, join: Join, answer: Callable[[JoinAnswer], None]) -> None:
        """JoinGroup; `answer` is called once, now or later."""
        ticket = next(self._tickets)
        self._joins[ticket] = answer
        self._carry_out(self._groups.join(group_id, join, ticket, self._steady_ms()))

    def sync(self, group_id: str, sync: Sync, answer: Callable[[SyncAnswer], None]) -> None:
        """SyncGroup; `answer` is called once, now or later."""
        ticket = next(self._tickets)
        self._syncs[ticket] = answer
        self._carry_out(self._groups.sync(group_id, sync, ticket, self._steady_ms()))

    def heartbeat(self, group_id: str, identity: Identity, generation_id: int) -> None:
        """Heartbeat.

        :raises KafkaError: why the member should do something else.
        """
        self._groups.heartbeat(group_id, identity, generation_id, self._steady_ms())
        self._arm()

    def leave(self, group_id: str, identities: Sequence[Identity]) -> list[ErrorCode]:
        """LeaveGroup; one error code per identity.

        :raises KafkaError: INVALID_GROUP_ID.
        """
        errors, effects = self._groups.leave(group_id, identities, self._steady_ms())
        self._carry_out(effects)
        return errors

    # Offsets.

    def check_commit(self, group_id: str, identity: Identity, generation_id: int) -> None:
        """Whether this sender may commit offsets of this group now; a member's commit is a sign of life.

        :raises KafkaError: why not.
        """
        if generation_id >= 0 and group_id in self._committed and self._groups.get(group_id) is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)  # the group is there, but without members
        self._groups.check_commit(group_id, identity, generation_id, self._steady_ms())
        self._arm()
        if group_id not in self._committed and len(self._committed) >= self.config.max_offset_groups:
            log.warning(
                "no room for another group's offsets: raise max_offset_groups or delete groups",
                extra={"max_offset_groups": self.config.max_offset_groups},
            )
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "too many groups have committed offsets")

    def commit(self, group_id: str, offsets: Mapping[Partition, Offset], done: Done[None]) -> None:
        """Store offsets; `done` is called in the loop once they are durable, or with why they are not."""
        self._offsets.commit(group_id, offsets, done)
        self._committed[group_id] = self._committed.get(group_id, 0) + 1

    def fetch(
        self, group_ids: Collection[str], done: Done[dict[str, dict[Partition, CommittedOffset]]]
    ) -> None:
        """All committed offsets of some groups, every commit before this call included."""
        known = [group_id for group_id in dict.fromkeys(group_ids) if group_id in self._committed]
        if known:
            self._offsets.run(lambda store: {group_id: store.fetch(group_id) for group_id in known}, done)
        else:
            done({})

    def groups_with_offsets(self) -> list[str]:
        """The groups that have committed offsets, by name."""
        return sorted(self._committed)

    # Administration.

    def summaries(self) -> list[Summary]:
        """All groups: those with members, and those that have committed offsets."""
        present = [
            Summary(group.group_id, group.state, group.protocol_type or "", len(group.roster))
            for group in self._groups
        ]
        return present + [
            Summary(group_id, GroupState.EMPTY, "", 0)
            for group_id in sorted(self._committed)
            if self._groups.get(group_id) is None
        ]

    def describe(self, group_id: str) -> Description | None:
        """A group, or None if there is none."""
        group = self._groups.get(group_id)
        if group is not None:
            return group.describe()
        if group_id in self._committed:
            return Description(group_id, GroupState.EMPTY, "", "", ())
        return None

    def delete(self, group_id: str, done: Done[None]) -> None:
        """Forget a group without members and what it committed; `done` is called with why it cannot be."""
        if self._groups.get(group_id) is None and group_id not in self._committed:
            done(KafkaError(ErrorCode.GROUP_ID_NOT_FOUND))
            return
        try:
            self._groups.delete(group_id)
        except KafkaError as error:
            done(error)
            return
        commits = self._committed.get(group_id, 0)

        def deleted(result: KafkaError | None) -> None:
            if result is None:
                self._forget_offsets(group_id, commits)
            done(result)

        self._offsets.run(lambda store: store.delete(group_id), deleted)

    def _forget_offsets(self, group_id: str, commits: int) -> None:
        """Its offsets are gone from the store, unless it committed again since it had committed so often."""
        if self._committed.get(group_id) == commits:
            del self._committed[group_id]

    # Effects and timers.

    @property
    def _offsets(self) -> OffsetThread:
        assert self._thread is not None, "start() comes first"
        return self._thread

    def _carry_out(self, effects: list[Effect]) -> None:
        """Answer; an answer may make its connection ask the next thing before this returns."""
        self._arm()
        for effect in effects:
            if isinstance(effect, JoinAnswer):
                self._joins.pop(effect.ticket)(effect)
            else:
                self._syncs.pop(effect.ticket)(effect)

    def _arm(self) -> None:
        """Set the one timer to the earliest deadline of all groups."""
        wake_ms = self._groups.wake_ms
        if wake_ms is None or (self._timer_ms is not None and self._timer_ms <= wake_ms):
            return  # a timer that comes early costs one empty tick
        if self._timer is not None:
            self._timer.cancel()
        assert self._loop is not None, "start() comes first"
        self._timer_ms = wake_ms
        self._timer = self._loop.call_later(max(wake_ms - self._steady_ms(), 0) / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_ms = None
        self._carry_out(self._groups.tick(self._steady_ms()))

    # Retention.

    def _schedule_cleanup(self, delay_ms: int) -> None:
        assert self._loop is not None, "start() comes first"
        self._cleanup = self._loop.call_later(delay_ms / 1000, self._clean_up)

    def _clean_up(self) -> None:
        for group in list(self._groups):
            if group.group_id not in self._committed:
                self._groups.forget(group.group_id)
        retention_ms, now_ms = self.config.offsets_retention_ms, self._wall_ms()
        for group_id, commits in self._committed.items():
            life = self._life(self._groups.get(group_id))
            self._offsets.run(
                partial(_keep, group_id=group_id, life=life, now_ms=now_ms, retention_ms=retention_ms),
                partial(self._kept, group_id, commits),
            )
        self._schedule_cleanup(self.config.offsets_retention_check_interval_ms)

    def _kept(self, group_id: str, commits: int, left: int | KafkaError) -> None:
        if left == 0:
            self._forget_offsets(group_id, commits)

    def _life(self, group: Group | None) -> Life:
        if group is None:
            return Life()
        if group.state is GroupState.EMPTY:
            return Life(empty_since_ms=self._wall_ms() - (self._steady_ms() - group.state_since_ms))
        return Life(has_members=True, subscribed=self._subscribed(group))

    def _subscribed(self, group: Group) -> frozenset[UUID] | None:
        """The topics that a stable group of consumers reads."""
        if group.state is not GroupState.STABLE or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        names: set[str] = set()
        for member in group.roster.members.values():
            topics = subscribed_topics(member.metadata(group.protocol_name))
            if topics is None:
                return None
            names |= topics
        return frozenset(topic_id for name in names if (topic_id := self._topic_id(name)) is not None)


def _keep(store: OffsetStore, *, group_id: str, life: Life, now_ms: int, retention_ms: int) -> int:
    """Apply the retention to one group, in the offsets' thread; returns how many offsets are left."""
    offsets = store.fetch(group_id)
    verdict = judge(offsets, life, now_ms=now_ms, retention_ms=retention_ms)
    if verdict.refresh:
        again = {
            partition: (kept.offset, kept.leader_epoch, kept.metadata)
            for partition in verdict.refresh
            if (kept := offsets[partition])
        }
        store.commit_all([(group_id, again)], now_ms)
    if verdict.expired:
        log.info("offsets expired", extra={"group": group_id, "partitions": len(verdict.expired)})
        store.delete(group_id, verdict.expired)
    return len(offsets) - len(verdict.expired)
