"""Many groups on one clock; random histories keep the promises of the state machine."""

import dataclasses
import itertools
import random

import pytest

from gateway.groups.config import GroupConfig
from gateway.groups.groups import Groups
from gateway.groups.messages import Effect, Identity, Join, JoinAnswer, Sync
from gateway.groups.state import GroupState
from protocol.errors import ErrorCode, KafkaError


def make_groups(**config: int) -> Groups:
    ids = itertools.count(1)
    config.setdefault("initial_rebalance_delay_ms", 0)
    return Groups(GroupConfig(**config), lambda: str(next(ids)))


def make_join(
    member_id: str = "", *, instance: str | None = None, session_ms: int = 10_000, known: bool = False
) -> Join:
    return Join(
        member_id=member_id,
        group_instance_id=instance,
        client_id="c",
        client_host="/127.0.0.1",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=(("range", b""),),
        must_know_member_id=known,
    )


def test_a_join_makes_the_group_only_without_a_member_id() -> None:
    groups = make_groups()
    [answer] = groups.join("g", make_join("left-over"), 1, 0)
    assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(groups) == 0
    [answer] = groups.join("g", make_join(), 2, 0)
    assert answer.error is ErrorCode.NONE


def test_a_group_needs_a_name() -> None:
    groups = make_groups()
    [answer] = groups.join("", make_join(), 1, 0)
    assert answer.error is ErrorCode.INVALID_GROUP_ID
    [answer] = groups.sync("", Sync(member_id="m", group_instance_id=None, generation_id=1), 2, 0)
    assert answer.error is ErrorCode.INVALID_GROUP_ID
    with pytest.raises(KafkaError, match="INVALID_GROUP_ID"):
        groups.heartbeat("", Identity("m"), 1, 0)
    with pytest.raises(KafkaError, match="INVALID_GROUP_ID"):
        groups.leave("", [Identity("m")], 0)


@pytest.mark.parametrize("session_ms", [0, 5_999, 1_800_001])
def test_session_timeouts_are_bounded(session_ms: int) -> None:
    [answer] = make_groups().join("g", make_join(session_ms=session_ms), 1, 0)
    assert answer.error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_members_from_before_a_restart_are_sent_to_join_again() -> None:
    groups = make_groups()
    with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
        groups.heartbeat("g", Identity("c-1"), 5, 0)
    with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
        groups.check_commit("g", Identity("c-1"), 5, 0)
    groups.check_commit("g", Identity(""), -1, 0)
    [answer] = groups.sync("g", Sync(member_id="c-1", group_instance_id=None, generation_id=5), 1, 0)
    assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.leave("g", [Identity("c-1")], 0) == ([ErrorCode.UNKNOWN_MEMBER_ID], [])


def test_one_tick_serves_every_group_that_is_due() -> None:
    groups = make_groups()
    for index in range(5):
        groups.join(f"g{index}", make_join(session_ms=10_000 + index), index, 0)
    assert groups.wake_ms == 10_000
    groups.tick(10_002)
    states = [group.state for group in groups]
    assert states == [GroupState.EMPTY] * 3 + [GroupState.COMPLETING_REBALANCE] * 2
    assert groups.wake_ms == 10_003


def test_heartbeats_move_the_deadline_without_growing_the_heap() -> None:
    groups = make_groups()
    [answer] = groups.join("g", make_join(), 1, 0)
    assert isinstance(answer, JoinAnswer)
    groups.sync("g", Sync(member_id=answer.member_id, group_instance_id=None, generation_id=1), 2, 0)
    for now_ms in range(0, 100_000, 10):
        groups.tick(now_ms)
        groups.heartbeat("g", Identity(answer.member_id), 1, now_ms)
    assert len(groups._due) < 5
    group = groups.get("g")
    assert group is not None
    assert group.state is GroupState.STABLE


def test_the_number_of_groups_is_bounded_and_empty_ones_make_room(caplog: pytest.LogCaptureFixture) -> None:
    groups = make_groups(max_groups=2)
    for ticket, name in enumerate(("a", "b")):
        groups.join(name, make_join(), ticket, 0)
    [answer] = groups.join("c", make_join(), 3, 1)
    assert answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    groups.join("c", make_join(), 4, 2)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "no room for more members: raise the limit or stop consumers"
    ]
    groups.tick(20_000)
    [answer] = groups.join("c", make_join(), 5, 20_000)
    assert answer.error is ErrorCode.NONE
    assert len(groups) == 2


def test_what_all_groups_hold_is_bounded() -> None:
    groups = make_groups(max_held_bytes=20_000)
    codes = []
    for number in range(40):
        [answer] = groups.join(f"g{number}", make_join(known=True), number, 0)
        codes.append(answer.error)
    refused = codes.count(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert 20 < refused < 40
    assert codes.count(ErrorCode.MEMBER_ID_REQUIRED) == 40 - refused
    assert groups.held_bytes == sum(group.held_bytes for group in groups)
    groups.tick(10_000)
    for number in range(40):
        groups.forget(f"g{number}")
    assert groups.held_bytes == 0


def test_long_names_do_not_end_up_in_member_ids() -> None:
    groups = make_groups()
    join = Join(**{**dataclasses.asdict(make_join()), "client_id": "x" * 32_000})
    [answer] = groups.join("g", join, 1, 0)
    assert isinstance(answer, JoinAnswer)
    assert len(answer.member_id) < 300


def test_a_group_with_members_is_not_forgotten() -> None:
    groups = make_groups()
    groups.join("g", make_join(), 1, 0)
    groups.forget("g")
    assert len(groups) == 1
    groups.tick(10_000)
    groups.forget("g")
    assert len(groups) == 0
    assert groups.wake_ms is None


class History:
    """Random clients against one group; they rejoin as real ones do, or vanish."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.groups = make_groups(initial_rebalance_delay_ms=self.random.choice((0, 500)), max_members=6)
        self.now_ms = 0
        self.tickets = itertools.count(1)
        self.open: set[int] = set()
        self.answered: set[int] = set()
        self.ids: list[tuple[str, str | None]] = []
        self.generations = [0]

    def note(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert effect.ticket in self.open, "answered twice, or never asked"
            self.open.remove(effect.ticket)
            self.answered.add(effect.ticket)
            if isinstance(effect, JoinAnswer):
                if effect.member_id:
                    self.ids.append((effect.member_id, None))
                if effect.error is ErrorCode.NONE:
                    self.generations.append(effect.generation_id)

    def step(self) -> None:
        choice = self.random.random()
        member_id, _ = self.random.choice(self.ids[-12:] or [("", None)])
        instance = self.random.choice((None, None, None, "i1", "i2"))
        generation = self.generations[-1] - self.random.choice((0, 0, 0, 1))
        ticket = next(self.tickets)
        if choice < 0.35:
            self.open.add(ticket)
            asked = self.random.choice(("", member_id))
            join = make_join(asked, instance=instance, known=self.random.random() < 0.7)
            self.note(self.groups.join("g", join, ticket, self.now_ms))
        elif choice < 0.65:
            self.open.add(ticket)
            assignments = tuple((one, b"x") for one, _ in self.ids[-6:])
            sync = Sync(
                member_id=member_id,
                group_instance_id=instance,
                generation_id=generation,
                assignments=assignments,
            )
            self.note(self.groups.sync("g", sync, ticket, self.now_ms))
        elif choice < 0.75:
            _, effects = self.groups.leave("g", [Identity(member_id, instance)], self.now_ms)
            self.note(effects)
        elif choice < 0.9:
            try:
                self.groups.heartbeat("g", Identity(member_id, instance), generation, self.now_ms)
                self.groups.check_commit("g", Identity(member_id, instance), generation, self.now_ms)
            except KafkaError:
                pass
        else:
            self.pass_time(self.random.choice((1, 100, 3_000, 12_000)))

    def pass_time(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (wake_ms := self.groups.wake_ms) is not None and wake_ms <= end_ms:
            assert wake_ms >= self.now_ms or self.groups.wake_ms == wake_ms
            self.now_ms = max(self.now_ms, wake_ms)
            self.note(self.groups.tick(self.now_ms))
        self.now_ms = end_ms

    def check(self) -> None:
        group = self.groups.get("g")
        if group is None:
            return
        roster = group.roster
        assert roster.held_bytes == sum(member.held_bytes for member in roster.members.values())
        assert (roster.leader_id in roster) == bool(len(roster))
        assert (group.state is GroupState.EMPTY) <= (len(roster) == 0)
        assert not group._parked_joins or group.state is GroupState.PREPARING_REBALANCE
        assert not group._parked_syncs or group.state is GroupState.COMPLETING_REBALANCE
        assert set(group._parked_joins) | set(group._parked_syncs) | group._unsynced <= set(roster.members)
        assert self.open == set(group._parked_joins.values()) | set(group._parked_syncs.values())
        assert self.groups.held_bytes == group.held_bytes
        assert self.open == set() or self.groups.wake_ms is not None
        assert len(roster) <= 2 * 6


@pytest.mark.parametrize("seed", range(60))
def test_random_histories_keep_the_invariants_and_answer_everything(seed: int) -> None:
    history = History(seed)
    for _ in range(300):
        history.step()
        history.check()
    history.pass_time(700_000)
    history.check()
    assert not history.open
    group = history.groups.get("g")
    assert group is None or group.state is GroupState.EMPTY
    assert history.groups.wake_ms is None
    assert history.generations == sorted(history.generations)
