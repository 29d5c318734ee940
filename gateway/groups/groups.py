"""All groups of the coordinator that have members, with one clock for their deadlines.

Like a group it never waits and never asks the time: requests and `tick` return effects, `wake_ms` says when
the next `tick` is due.
"""

import heapq
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn

from gateway.groups.config import GroupConfig
from gateway.groups.group import Group
from gateway.groups.messages import NO_MEMBER_ID, Effect, Identity, Join, JoinAnswer, Sync, SyncAnswer
from gateway.groups.state import GroupState
from protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

_FULL_LOG_INTERVAL_MS: Final = 60_000


class Groups:
    """Groups by name; those that only commit offsets are no concern of this class."""

    def __init__(self, config: GroupConfig, new_id: Callable[[], str]) -> None:
        self._config = config
        self._new_id = new_id
        self._groups: dict[str, Group] = {}
        self._due: list[tuple[int, str]] = []
        """Heap of (time, group id); an entry that is not the group's in `_armed` is out of date."""
        self._armed: dict[str, int] = {}
        self._said_full_ms: int | None = None
        self._held: dict[str, int] = {}
        self.held_bytes = 0
        """What all groups take of memory, about."""

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def get(self, group_id: str) -> Group | None:
        """The group, if it has members or had some lately."""
        return self._groups.get(group_id)

    @property
    def wake_ms(self) -> int | None:
        """When `tick` has to be called next; None if nothing waits."""
        while self._due and self._armed.get(self._due[0][1]) != self._due[0][0]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def join(self, group_id: str, join: Join, ticket: int, now_ms: int) -> list[Effect]:
        """JoinGroup; a member without an id makes the group if there is none."""
        try:
            if not group_id:
                raise KafkaError(ErrorCode.INVALID_GROUP_ID)
            low, high = self._config.min_session_timeout_ms, self._config.max_session_timeout_ms
            if not low <= join.session_timeout_ms <= high:
                raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
            group = self._groups.get(group_id)
            if group is None and join.member_id != NO_MEMBER_ID:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if join.member_id == NO_MEMBER_ID and self.held_bytes >= self._config.max_held_bytes:
                self._refuse("max_held_bytes", group_id, now_ms)
            if group is None:
                group = self._add(group_id, now_ms)
        except KafkaError as error:
            return [JoinAnswer(ticket=ticket, error=error.code, member_id=join.member_id)]
        effects = group.join(join, ticket, now_ms)
        self._note(group)
        return effects

    def sync(self, group_id: str, sync: Sync, ticket: int, now_ms: int) -> list[Effect]:
        """SyncGroup."""
        try:
            group = self._present(group_id)
        except KafkaError as error:
            return [SyncAnswer(ticket=ticket, error=error.code)]
        effects = group.sync(sync, ticket, now_ms)
        self._note(group)
        return effects

    def heartbeat(self, group_id: str, identity: Identity, generation_id: int, now_ms: int) -> None:
        """Heartbeat.

        :raises KafkaError: why the member should do something else.
        """
        group = self._present(group_id)
        group.heartbeat(identity, generation_id, now_ms)
        self._note(group)

    def leave(
        self, group_id: str, identities: Sequence[Identity], now_ms: int
    ) -> tuple[list[ErrorCode], list[Effect]]:
        """LeaveGroup; one error code per identity.

        :raises KafkaError: INVALID_GROUP_ID.
        """
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(identities), []
        codes, effects = group.leave(identities, now_ms)
        self._note(group)
        return codes, effects

    def check_commit(self, group_id: str, identity: Identity, generation_id: int, now_ms: int) -> None:
        """Whether offsets of this group may be committed by this sender now.

        :raises KafkaError: why not.
        """
        group = self._groups.get(group_id)
        if group is not None:
            group.check_commit(identity, generation_id, now_ms)
            self._note(group)
        elif generation_id >= 0:
            # From version 9 on Kafka says GROUP_ID_NOT_FOUND, which clients take for fatal. Here a restart
            # loses the members of all groups, and this code makes them join again.
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def tick(self, now_ms: int) -> list[Effect]:
        """Call every group whose time has come."""
        effects: list[Effect] = []
        while (wake_ms := self.wake_ms) is not None and wake_ms <= now_ms:
            group_id = heapq.heappop(self._due)[1]
            del self._armed[group_id]
            group = self._groups[group_id]
            effects += group.tick(now_ms)
            self._note(group)
        return effects

    def forget(self, group_id: str) -> None:
        """Drop a group that nobody is in or on the way to, if there is one."""
        group = self._groups.get(group_id)
        if group is not None and group.is_disposable:
            self.delete(group_id)

    def delete(self, group_id: str) -> None:
        """Drop a group, if there is one; the answer to who still refers to it is UNKNOWN_MEMBER_ID.

        :raises KafkaError: NON_EMPTY_GROUP if it has members.
        """
        group = self._groups.get(group_id)
        if group is None:
            return
        if group.state is not GroupState.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
        del self._groups[group_id]
        self._armed.pop(group_id, None)
        self.held_bytes -= self._held.pop(group_id, 0)
        group.bury()

    def _present(self, group_id: str) -> Group:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def _add(self, group_id: str, now_ms: int) -> Group:
        if len(self._groups) >= self._config.max_groups and not self._make_room():
            self._refuse("max_groups", group_id, now_ms)
        group = self._groups[group_id] = Group(group_id, self._config, now_ms, self._new_id)
        return group

    def _refuse(self, limit: str, group_id: str, now_ms: int) -> NoReturn:
        """Send a member away until there is room; clients try again by themselves."""
        if self._said_full_ms is None or now_ms - self._said_full_ms >= _FULL_LOG_INTERVAL_MS:
            self._said_full_ms = now_ms
            log.warning(
                "no room for more members: raise the limit or stop consumers",
                extra={"limit": limit, "group": group_id},
            )
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _make_room(self) -> bool:
        """Forget the group that has been empty longest."""
        empty = [group for group in self._groups.values() if group.is_disposable]
        if not empty:
            return False
        self.forget(min(empty, key=lambda group: group.state_since_ms).group_id)
        return True

    def _note(self, group: Group) -> None:
        """Take over from a group when it is due, and what it holds."""
        held_bytes = group.held_bytes
        self.held_bytes += held_bytes - self._held.get(group.group_id, 0)
        self._held[group.group_id] = held_bytes
        wake_ms = group.wake_ms
        armed_ms = self._armed.get(group.group_id)
        if wake_ms is not None and (armed_ms is None or wake_ms < armed_ms):
            self._armed[group.group_id] = wake_ms
            heapq.heappush(self._due, (wake_ms, group.group_id))
