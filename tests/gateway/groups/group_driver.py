"""A group state machine with a clock that only moves when told: an hour passes in a call."""

import itertools

from gateway.groups.config import GroupConfig
from gateway.groups.group import Group
from gateway.groups.messages import Effect, Identity, Join, JoinAnswer, Sync, SyncAnswer
from gateway.groups.state import GroupState
from protocol.errors import ErrorCode, KafkaError

RANGE = (("range", b"topics-a"),)


class Driver:
    """A group with a clock that only moves when told, and the answers by ticket."""

    def __init__(self, **config: int) -> None:
        ids = itertools.count(1)
        self.now_ms = 1_000_000
        config.setdefault("initial_rebalance_delay_ms", 0)
        self.group = Group("g", GroupConfig(**config), self.now_ms, lambda: str(next(ids)))
        self.answers: dict[int, Effect] = {}
        self._tickets = itertools.count(1)

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        version: int = 9,
    ) -> int:
        ticket = next(self._tickets)
        join = Join(
            member_id=member_id,
            group_instance_id=instance,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=protocols,
            must_know_member_id=version >= 4,
            can_skip_assignment=version >= 9,
        )
        self._note(self.group.join(join, ticket, self.now_ms))
        return ticket

    def sync(
        self, member_id: str, generation_id: int, *, instance: str | None = None, **assignments: bytes
    ) -> int:
        ticket = next(self._tickets)
        given = tuple((name.replace("_", "-"), value) for name, value in assignments.items())
        sync = Sync(
            member_id=member_id, group_instance_id=instance, generation_id=generation_id, assignments=given
        )
        self._note(self.group.sync(sync, ticket, self.now_ms))
        return ticket

    def heartbeat(self, member_id: str, generation_id: int, instance: str | None = None) -> ErrorCode:
        try:
            self.group.heartbeat(Identity(member_id, instance), generation_id, self.now_ms)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def commit(self, member_id: str, generation_id: int, instance: str | None = None) -> ErrorCode:
        try:
            self.group.check_commit(Identity(member_id, instance), generation_id, self.now_ms)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def leave(self, *identities: Identity) -> list[ErrorCode]:
        codes, effects = self.group.leave(identities, self.now_ms)
        self._note(effects)
        return codes

    def after(self, ms: int) -> None:
        """Let time pass as the loop's timer would: a tick at each moment the group asks for."""
        end_ms = self.now_ms + ms
        while self.group.wake_ms is not None and self.group.wake_ms <= end_ms:
            self.now_ms = max(self.now_ms, self.group.wake_ms)
            self._note(self.group.tick(self.now_ms))
        self.now_ms = end_ms

    def joined(self, ticket: int) -> JoinAnswer:
        answer = self.answers[ticket]
        assert isinstance(answer, JoinAnswer)
        return answer

    def synced(self, ticket: int) -> SyncAnswer:
        answer = self.answers[ticket]
        assert isinstance(answer, SyncAnswer)
        return answer

    def new_member(self, **kwargs: object) -> str:
        """The two JoinGroups of a v4+ client; returns the member id, the second one is parked or answered."""
        first = self.joined(self.join(**kwargs))  # type: ignore[arg-type]  # keywords of join
        assert first.error is ErrorCode.MEMBER_ID_REQUIRED
        self.last = self.join(first.member_id, **kwargs)  # type: ignore[arg-type]  # keywords of join
        return first.member_id

    def stable(self, count: int = 1, **kwargs: object) -> list[str]:
        """A stable group of `count` members with assignments a0, a1, ...; the first one leads."""
        members = [self.new_member(**kwargs)]
        for _ in range(count - 1):
            members.append(self.new_member(**kwargs))
            for member in members[:-1]:
                self.join(member, **kwargs)  # type: ignore[arg-type]  # keywords of join
        self.settle(members)
        return members

    def settle(self, members: list[str]) -> None:
        for member in members[1:]:
            self.sync(member, self.group.generation_id)
        given = {member.replace("-", "_"): b"a%d" % index for index, member in enumerate(members)}
        self.sync(members[0], self.group.generation_id, **given)
        assert self.group.state is GroupState.STABLE

    def _note(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert effect.ticket not in self.answers, "answered twice"
            self.answers[effect.ticket] = effect
