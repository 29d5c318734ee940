"""The state machine of one classic consumer group (KIP-62, KIP-345, KIP-394, KIP-814), as Kafka's coordinator
keeps it.

It never waits, sends or asks the time. A request that has to wait is parked under the ticket that it came
with, and answered by an effect that some later call returns. `wake_ms` says when `tick` has to be called; it
may be early, never late. This file holds what a client can ask; what a rebalance goes through is in
`gateway.groups.rebalance`.
"""

import logging
from collections.abc import Sequence
from typing import Final

from gateway.groups.member import MEMBER_BYTES, Member, protocols_bytes
from gateway.groups.messages import (
    NO_MEMBER_ID,
    DescribedMember,
    Description,
    Effect,
    Identity,
    Join,
    JoinAnswer,
    Sync,
    SyncAnswer,
)
from gateway.groups.rebalance import Rebalance
from gateway.groups.state import GroupState
from protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

_MAX_NAME: Final = 255
"""Characters of a client's own name that go into the member id it is given."""


class Group(Rebalance):
    """One group; all times are milliseconds of one steady clock."""

    @property
    def is_disposable(self) -> bool:
        """Whether nobody is here or on the way here."""
        return self.state is GroupState.EMPTY and not self._given_ids

    @property
    def held_bytes(self) -> int:
        """What the group takes of memory, about."""
        return MEMBER_BYTES * (1 + len(self._given_ids)) + self.roster.held_bytes

    # Requests.

    def join(self, join: Join, ticket: int, now_ms: int) -> list[Effect]:
        """JoinGroup: answered at once, or parked until the generation is complete."""
        try:
            self._join(join, ticket, now_ms)
        except KafkaError as error:
            member_id = NO_MEMBER_ID if error.code is ErrorCode.GROUP_MAX_SIZE_REACHED else join.member_id
            self._effects.append(JoinAnswer(ticket=ticket, error=error.code, member_id=member_id))
        return self._drained(now_ms)

    def sync(self, sync: Sync, ticket: int, now_ms: int) -> list[Effect]:
        """SyncGroup: answered with the assignment, or parked until the leader has brought it."""
        try:
            self._sync(sync, ticket, now_ms)
        except KafkaError as error:
            self._effects.append(SyncAnswer(ticket=ticket, error=error.code))
        return self._drained(now_ms)

    def heartbeat(self, identity: Identity, generation_id: int, now_ms: int) -> None:
        """Heartbeat: the member lives on.

        :raises KafkaError: REBALANCE_IN_PROGRESS when the member should join again, or why it is none.
        """
        self._known(identity, generation_id)
        self._keep_alive(self.roster.members[identity.member_id], now_ms)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_commit(self, identity: Identity, generation_id: int, now_ms: int) -> None:
        """Whether this sender may commit offsets now; a member's commit is a sign of life.

        :raises KafkaError: why not.
        """
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return  # an administrator, or a consumer that assigns itself
        if generation_id < 0 and not identity.member_id and identity.group_instance_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        self._known(identity, generation_id)
        if self.state is GroupState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._keep_alive(self.roster.members[identity.member_id], now_ms)

    def leave(self, identities: Sequence[Identity], now_ms: int) -> tuple[list[ErrorCode], list[Effect]]:
        """LeaveGroup: remove members; one error code per identity."""
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        before = len(self.roster)
        codes = [self._leave(identity) for identity in identities]
        if len(self.roster) < before:
            self._after_removal(now_ms, "members left")
        elif self.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_all_joined(now_ms)  # an id that was given out and awaited has left
        return codes, self._drained(now_ms)

    def bury(self) -> None:
        """The group is deleted: whoever still holds it is told to look for the coordinator again."""
        self._enter(GroupState.DEAD, self.state_since_ms)

    def describe(self) -> Description:
        """What an administrator sees; metadata and assignments only when they belong together (Stable)."""
        stable = self.state is GroupState.STABLE
        return Description(
            group_id=self.group_id,
            state=self.state,
            protocol_type=self.protocol_type or "",
            protocol=(self.protocol_name or "") if stable else "",
            members=tuple(
                DescribedMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    metadata=member.metadata(self.protocol_name) if stable else b"",
                    assignment=member.assignment if stable else b"",
                )
                for member in self.roster.members.values()
            ),
        )

    # JoinGroup.

    def _join(self, join: Join, ticket: int, now_ms: int) -> None:
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not self._accepts(join.member_id):
            self._given_ids.pop(join.member_id, None)
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not self._supports(join):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        present = self.roster.members.get(
            self.roster.static_member_id(join.group_instance_id) or join.member_id
        )
        freed = present.held_bytes if present is not None else 0
        added = MEMBER_BYTES + protocols_bytes(join.protocols)
        if self.roster.held_bytes - freed + added > self._config.max_group_bytes:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        if join.member_id == NO_MEMBER_ID:
            self._join_newcomer(join, ticket, now_ms)
        elif join.member_id in self._given_ids and join.group_instance_id is None:
            self._take_in(join, join.member_id, ticket, now_ms)
        else:
            self._known(Identity(join.member_id, join.group_instance_id))
            self._join_again(self.roster.members[join.member_id], join, ticket, now_ms)

    def _join_newcomer(self, join: Join, ticket: int, now_ms: int) -> None:
        name = (join.group_instance_id or join.client_id)[:_MAX_NAME]
        member_id = f"{name}-{self._new_id()}"
        old_member_id = self.roster.static_member_id(join.group_instance_id)
        if old_member_id is not None:
            self._replace_static(old_member_id, member_id, join, ticket, now_ms)
        elif join.group_instance_id is None and join.must_know_member_id:
            self._given_ids[member_id] = now_ms + join.session_timeout_ms
            self._wake_at(self._given_ids[member_id])
            self._effects.append(
                JoinAnswer(ticket=ticket, error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
            )
        else:
            self._take_in(join, member_id, ticket, now_ms)

    def _take_in(self, join: Join, member_id: str, ticket: int, now_ms: int) -> None:
        self._given_ids.pop(member_id, None)
        if not self.roster.members:
            self.protocol_type = join.protocol_type
        member = Member.of(join, member_id)
        self.roster.add(member)
        self._joined_during_delay = True
        self._park_join(member, ticket)
        # A member without an answer sends no heartbeats: its connection may be gone without anybody noticing.
        self._expire_at(member, now_ms + self._config.new_member_join_timeout_ms)
        self._rebalance(now_ms, "new member")

    def _join_again(self, member: Member, join: Join, ticket: int, now_ms: int) -> None:
        leads = member.member_id == self.roster.leader_id
        unchanged = member.protocols == join.protocols
        settled = self.state is GroupState.COMPLETING_REBALANCE or (
            self.state is GroupState.STABLE and not leads
        )
        if settled and unchanged:  # the first answer was lost on the way
            self._effects.append(self._joined(member, ticket, leader_id=self.roster.leader_id))
        else:
            # The leader's JoinGroup always starts a rebalance: so it has partitions assigned that appeared
            # meanwhile.
            self.roster.update(member, join)
            self._park_join(member, ticket)
            self._rebalance(now_ms, "leader joins again" if leads else "member changed")

    def _replace_static(
        self, old_member_id: str, member_id: str, join: Join, ticket: int, now_ms: int
    ) -> None:
        """A static instance came back without its member id: it takes over, whoever held the id is fenced
        (KIP-345)."""
        log.info(
            "static member replaced",
            extra={"group": self.group_id, "instance": join.group_instance_id, "member_id": member_id},
        )
        old_leader_id = self.roster.leader_id
        self._answer_parked(old_member_id, ErrorCode.FENCED_INSTANCE_ID)
        member = self.roster.replace(old_member_id, member_id)
        if old_member_id in self._unsynced:
            self._unsynced.remove(old_member_id)
            self._unsynced.add(member_id)
        self.roster.update(member, join)
        member.is_new = False
        self._keep_alive(member, now_ms)
        if self.state is GroupState.STABLE and self.roster.select_protocol() == self.protocol_name:
            # Told the old leader's id, a client that cannot skip the assignment does not take itself for the
            # leader.
            leader_id = self.roster.leader_id if join.can_skip_assignment else old_leader_id
            leads = leader_id == member_id
            self._effects.append(self._joined(member, ticket, leader_id=leader_id, skip_assignment=leads))
            return
        self._park_join(member, ticket)
        self._rebalance(now_ms, "static member replaced")

    def _accepts(self, member_id: str) -> bool:
        """Whether there is room; in PreparingRebalance whoever joins last is left out (Kafka's rule).

        Static members that miss a rebalance stay, so a second bound holds for all that a group remembers.
        """
        limit = self._config.max_members
        if member_id not in self.roster and len(self.roster) >= 2 * limit:
            return False
        if member_id == NO_MEMBER_ID and len(self._given_ids) >= limit:
            return False
        if self.state is GroupState.EMPTY:
            return True
        if self.state is GroupState.PREPARING_REBALANCE:
            return member_id in self._parked_joins or len(self._parked_joins) < limit
        return member_id in self.roster or len(self.roster) < limit

    def _supports(self, join: Join) -> bool:
        names = [name for name, _ in join.protocols]
        if self.state is GroupState.EMPTY:
            return bool(join.protocol_type and names)
        # An id that was given out may come back when all members have left and the phase has not ended yet.
        return join.protocol_type == self.protocol_type and self.roster.supports_any(names)

    # SyncGroup and LeaveGroup.

    def _sync(self, sync: Sync, ticket: int, now_ms: int) -> None:
        self._known(Identity(sync.member_id, sync.group_instance_id), sync.generation_id)
        if _differ(sync.protocol_type, self.protocol_type) or _differ(sync.protocol_name, self.protocol_name):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        member = self.roster.members[sync.member_id]
        if self.state is GroupState.STABLE:
            self._synced(member)
            self._keep_alive(member, now_ms)
            self._effects.append(self._assigned(member, ticket))
            return
        leads = sync.member_id == self.roster.leader_id
        if leads:
            self._check_room_for(sync.assignments)
        self._synced(member)
        self._park_sync(member, ticket)
        if leads:
            self._distribute(dict(sync.assignments), now_ms)

    def _check_room_for(self, assignments: Sequence[tuple[str, bytes]]) -> None:
        held = sum(len(member.assignment) for member in self.roster.members.values())
        added = sum(len(assignment) for member_id, assignment in assignments if member_id in self.roster)
        if self.roster.held_bytes - held + added > self._config.max_group_bytes:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)

    def _leave(self, identity: Identity) -> ErrorCode:
        try:
            if identity.member_id in self._given_ids:
                del self._given_ids[identity.member_id]
                return ErrorCode.NONE
            member_id = identity.member_id
            if member_id == NO_MEMBER_ID:
                member_id = self.roster.static_member_id(identity.group_instance_id) or NO_MEMBER_ID
            self._known(Identity(member_id, identity.group_instance_id))
        except KafkaError as error:
            return error.code
        log.info("member leaves", extra={"group": self.group_id, "member_id": member_id})
        self._remove(member_id)
        return ErrorCode.NONE


def _differ(asked: str | None, held: str | None) -> bool:
    """Whether both are given and not the same (versions before 5 do not say what they assume)."""
    return asked is not None and held is not None and asked != held
