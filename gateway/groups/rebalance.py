"""What a group goes through from the call to rejoin to the assignment: phases, parked requests, deadlines.

Invariants: a ticket is answered exactly once. JoinGroups are parked only in PreparingRebalance, SyncGroups
only in CompletingRebalance. A member that waits for an answer does not expire, unless it is new.
"""

import logging
from collections.abc import Callable, Mapping

from gateway.groups.config import GroupConfig
from gateway.groups.member import Member
from gateway.groups.messages import (
    NO_MEMBER_ID,
    Effect,
    Identity,
    JoinAnswer,
    JoinedMember,
    SyncAnswer,
)
from gateway.groups.roster import Roster
from gateway.groups.state import GroupState
from protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class Rebalance:
    """The phases of a group; `gateway.groups.group.Group` adds the requests."""

    def __init__(self, group_id: str, config: GroupConfig, now_ms: int, new_id: Callable[[], str]) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        """Of the last generation that had members; None for a group that never had any."""
        self.protocol_name: str | None = None
        self.roster = Roster()
        self.wake_ms: int | None = None
        self._config = config
        self._new_id = new_id
        self._effects: list[Effect] = []
        self._given_ids: dict[str, int] = {}
        """Member ids given out with MEMBER_ID_REQUIRED and not used yet, with the time when they lapse."""
        self._parked_joins: dict[str, int] = {}
        """Tickets by member id."""
        self._parked_syncs: dict[str, int] = {}
        self._unsynced: set[str] = set()
        """Members that have not sent the SyncGroup of this generation."""
        self._join_deadline_ms: int | None = None
        self._sync_deadline_ms: int | None = None
        self._initial_delay: tuple[int, int] | None = None
        """In the first rebalance of an empty group: the delay that runs, and how much more of it is
        allowed."""
        self._joined_during_delay = False

    def tick(self, now_ms: int) -> list[Effect]:
        """Drop who has not been heard of, end the phases whose time is up; sets `wake_ms` anew."""
        self.wake_ms = None
        for member_id in [given for given, lapses_ms in self._given_ids.items() if lapses_ms <= now_ms]:
            log.info("member id never used", extra={"group": self.group_id, "member_id": member_id})
            del self._given_ids[member_id]
        self._expire_members(now_ms)
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_all_joined(now_ms)
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now_ms:
            self._drop_unsynced(now_ms)
        effects = self._drained(now_ms)
        self._wake_at(self._sync_deadline_ms)
        for lapses_ms in self._given_ids.values():
            self._wake_at(lapses_ms)
        for member in self.roster.members.values():
            self._wake_at(member.expires_ms)
        return effects

    # Membership.

    def _known(self, identity: Identity, generation_id: int | None = None) -> None:
        """Check that a request comes from a present member (of the present generation).

        :raises KafkaError: why it does not.
        """
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if identity.group_instance_id is not None:
            holder = self.roster.static_member_id(identity.group_instance_id)
            if holder is not None and holder != identity.member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
            if holder is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if identity.member_id not in self.roster:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if generation_id is not None and generation_id != self.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def _keep_alive(self, member: Member, now_ms: int) -> None:
        self._expire_at(member, now_ms + member.session_timeout_ms)

    def _expire_at(self, member: Member, expires_ms: int) -> None:
        member.expires_ms = expires_ms
        self._wake_at(expires_ms)

    def _expire_members(self, now_ms: int) -> None:
        expired = []
        for member in self.roster.members.values():
            if member.expires_ms is None or member.expires_ms > now_ms:
                continue
            waits = member.member_id in self._parked_joins or member.member_id in self._parked_syncs
            if waits and not member.is_new:
                member.expires_ms = None  # set again when it is answered
            else:
                expired.append(member.member_id)
        for member_id in expired:
            log.info("member expired", extra={"group": self.group_id, "member_id": member_id})
            self._remove(member_id)
        if expired:
            self._after_removal(now_ms, "members expired")

    def _remove(self, member_id: str) -> None:
        """Drop a member; a parked request of it gets UNKNOWN_MEMBER_ID, so that it joins anew if it still
        lives."""
        self._answer_parked(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        self.roster.remove(member_id)
        self._unsynced.discard(member_id)

    def _after_removal(self, now_ms: int, reason: str) -> None:
        if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._prepare(now_ms, reason)
        elif self.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_all_joined(now_ms)

    # Parked requests.

    def _park_join(self, member: Member, ticket: int) -> None:
        self._answer_parked(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        self._parked_joins[member.member_id] = ticket

    def _park_sync(self, member: Member, ticket: int) -> None:
        self._answer_parked(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        self._parked_syncs[member.member_id] = ticket

    def _answer_parked(self, member_id: str, code: ErrorCode) -> None:
        """Answer what is parked for a member with an error."""
        ticket = self._parked_joins.pop(member_id, None)
        if ticket is not None:
            told = NO_MEMBER_ID if code is ErrorCode.UNKNOWN_MEMBER_ID else member_id
            self._effects.append(JoinAnswer(ticket=ticket, error=code, member_id=told))
        ticket = self._parked_syncs.pop(member_id, None)
        if ticket is not None:
            self._effects.append(SyncAnswer(ticket=ticket, error=code))

    def _joined(
        self, member: Member, ticket: int, *, leader_id: str | None, skip_assignment: bool = False
    ) -> JoinAnswer:
        """The answer to a member of the present generation; `leader_id` is whom it is told to be the
        leader."""
        members: tuple[JoinedMember, ...] = ()
        if member.member_id == leader_id:
            members = tuple(
                JoinedMember(other.member_id, other.group_instance_id, other.metadata(self.protocol_name))
                for other in self.roster.members.values()
            )
        return JoinAnswer(
            ticket=ticket,
            error=ErrorCode.NONE,
            member_id=member.member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=leader_id or "",
            skip_assignment=skip_assignment,
            members=members,
        )

    def _assigned(self, member: Member, ticket: int) -> SyncAnswer:
        return SyncAnswer(
            ticket=ticket,
            error=ErrorCode.NONE,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    # Phases.

    def _rebalance(self, now_ms: int, reason: str) -> None:
        """A member joined: begin a rebalance, or go on with the one that runs."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_all_joined(now_ms)
        else:
            self._prepare(now_ms, reason)

    def _prepare(self, now_ms: int, reason: str) -> None:
        for member in self.roster.members.values():
            self.roster.assign(member, b"")
            if member.member_id in self._parked_syncs:
                self._answer_parked(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
                self._keep_alive(member, now_ms)
        self._unsynced.clear()
        self._sync_deadline_ms = None
        is_first = self.state is GroupState.EMPTY
        self._enter(GroupState.PREPARING_REBALANCE, now_ms)
        log.info(
            "group rebalances",
            extra={"group": self.group_id, "generation": self.generation_id, "reason": reason},
        )
        if is_first:
            delay_ms = self._config.initial_rebalance_delay_ms
            self._initial_delay = (delay_ms, max(self.roster.rebalance_timeout_ms - delay_ms, 0))
            self._joined_during_delay = False
            self._join_deadline_ms = now_ms + delay_ms
        elif not self._complete_if_all_joined(now_ms):
            self._join_deadline_ms = now_ms + self.roster.rebalance_timeout_ms

    def _complete_if_all_joined(self, now_ms: int) -> bool:
        """End the join phase if everybody is there; the first rebalance of a group waits for its delay to
        end."""
        if self._initial_delay is not None or self._given_ids or len(self._parked_joins) < len(self.roster):
            return False
        self._complete_join(now_ms)
        return True

    def _end_join_phase(self, now_ms: int) -> None:
        """The join phase's time is up: complete it, or go on waiting while new members keep coming to a new
        group."""
        if self._initial_delay is not None and self._joined_during_delay and self._initial_delay[1] > 0:
            delay_ms, left_ms = self._initial_delay
            next_delay_ms = min(self._config.initial_rebalance_delay_ms, left_ms)
            self._initial_delay = (next_delay_ms, max(left_ms - delay_ms, 0))
            self._joined_during_delay = False
            self._join_deadline_ms = now_ms + next_delay_ms
        else:
            self._complete_join(now_ms)

    def _complete_join(self, now_ms: int) -> None:
        """Begin the next generation with those who have joined."""
        self._join_deadline_ms = None
        for member in list(self.roster.members.values()):
            if member.member_id not in self._parked_joins and member.group_instance_id is None:
                log.info(
                    "member did not rejoin", extra={"group": self.group_id, "member_id": member.member_id}
                )
                self._remove(member.member_id)
        if len(self.roster) and not self._elect():
            # Only static members, and none has come: wait for one, or for their sessions to end.
            self._join_deadline_ms = now_ms + max(self.roster.rebalance_timeout_ms, 1_000)
            return
        self._initial_delay = None
        self.generation_id += 1
        if not len(self.roster):
            self.protocol_name = None
            self._enter(GroupState.EMPTY, now_ms)
            log.info("group is empty", extra={"group": self.group_id, "generation": self.generation_id})
            return
        self.protocol_name = self.roster.select_protocol()
        self._enter(GroupState.COMPLETING_REBALANCE, now_ms)
        self._unsynced = set(self.roster.members)
        for member in self.roster.members.values():
            ticket = self._parked_joins.pop(member.member_id, None)
            if ticket is not None:
                self._effects.append(self._joined(member, ticket, leader_id=self.roster.leader_id))
            member.is_new = False
            self._keep_alive(member, now_ms)
        self._sync_deadline_ms = now_ms + self.roster.rebalance_timeout_ms
        self._wake_at(self._sync_deadline_ms)

    def _elect(self) -> bool:
        """Let a member lead that has joined; whether there is one."""
        if self.roster.leader_id not in self._parked_joins:
            joined = next((one for one in self.roster.members if one in self._parked_joins), None)
            if joined is None:
                return False
            self.roster.leader_id = joined
        return True

    def _synced(self, member: Member) -> None:
        self._unsynced.discard(member.member_id)
        if not self._unsynced:
            self._sync_deadline_ms = None

    def _distribute(self, assignments: Mapping[str, bytes], now_ms: int) -> None:
        """The leader has assigned: everybody gets its part, who is not mentioned an empty one."""
        self._enter(GroupState.STABLE, now_ms)
        for member in self.roster.members.values():
            self.roster.assign(member, assignments.get(member.member_id, b""))
            ticket = self._parked_syncs.pop(member.member_id, None)
            if ticket is not None:
                self._effects.append(self._assigned(member, ticket))
                self._keep_alive(member, now_ms)
        log.info(
            "group is stable",
            extra={"group": self.group_id, "generation": self.generation_id, "members": len(self.roster)},
        )

    def _drop_unsynced(self, now_ms: int) -> None:
        """Drop who joined and never came for its assignment."""
        self._sync_deadline_ms = None
        for member_id in list(self._unsynced):
            log.info("member did not sync", extra={"group": self.group_id, "member_id": member_id})
            self._remove(member_id)
        self._prepare(now_ms, "members did not sync")

    # Bookkeeping.

    def _enter(self, state: GroupState, now_ms: int) -> None:
        self.state = state
        self.state_since_ms = now_ms

    def _wake_at(self, deadline_ms: int | None) -> None:
        if deadline_ms is not None and (self.wake_ms is None or deadline_ms < self.wake_ms):
            self.wake_ms = deadline_ms

    def _drained(self, now_ms: int) -> list[Effect]:
        """The effects of a call; a join phase without any delay ends within it."""
        if self._join_deadline_ms is not None and self._join_deadline_ms <= now_ms:
            self._end_join_phase(now_ms)
        self._wake_at(self._join_deadline_ms)
        effects, self._effects = self._effects, []
        return effects
