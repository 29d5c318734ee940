"""Static members (KIP-345): they come back under their own name, and fence who held it."""

from gateway.groups.messages import Identity
from gateway.groups.state import GroupState
from protocol.errors import ErrorCode
from tests.gateway.groups.group_driver import Driver


def static_pair(driver: Driver) -> tuple[str, str]:
    """A stable group of the instances one (leader) and two."""
    first = driver.joined(driver.join(instance="one")).member_id
    parked = driver.join(instance="two")
    driver.join(first, instance="one")
    second = driver.joined(parked).member_id
    driver.sync(second, 2, instance="two")
    driver.sync(first, 2, instance="one", **{first.replace("-", "_"): b"p0", second.replace("-", "_"): b"p1"})
    assert driver.group.state is GroupState.STABLE
    return first, second


def test_a_static_member_needs_no_second_join() -> None:
    driver = Driver()
    answer = driver.joined(driver.join(instance="one"))
    assert (answer.error, answer.member_id) == (ErrorCode.NONE, "one-1")


def test_a_static_follower_comes_back_without_a_rebalance() -> None:
    driver = Driver()
    first, second = static_pair(driver)
    answer = driver.joined(driver.join(instance="two"))
    assert answer.generation_id == 2
    assert answer.leader == first
    assert not answer.skip_assignment
    assert answer.member_id != second
    assert driver.group.state is GroupState.STABLE
    assert driver.synced(driver.sync(answer.member_id, 2, instance="two")).assignment == b"p1"
    assert driver.heartbeat(second, 2, "two") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.commit(second, 2, "two") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.synced(driver.sync(second, 2, instance="two")).error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.joined(driver.join(second, instance="two")).error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.leave(Identity(second, "two")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert driver.heartbeat(second, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_leader_comes_back_and_skips_the_assignment() -> None:
    driver = Driver()
    static_pair(driver)
    answer = driver.joined(driver.join(instance="one"))
    assert answer.leader == answer.member_id
    assert answer.skip_assignment
    assert len(answer.members) == 2
    assert driver.synced(driver.sync(answer.member_id, 2, instance="one")).assignment == b"p0"


def test_an_old_static_leader_is_told_its_old_id() -> None:
    driver = Driver()
    first, _ = static_pair(driver)
    answer = driver.joined(driver.join(instance="one", version=8))
    assert answer.leader == first != answer.member_id
    assert answer.members == ()
    assert driver.synced(driver.sync(answer.member_id, 2, instance="one")).assignment == b"p0"


def test_a_static_member_with_another_protocol_starts_a_rebalance() -> None:
    driver = Driver()
    both = (("a", b""), ("b", b""))
    ticket = driver.join(instance="one", protocols=both)
    member = driver.joined(ticket).member_id
    driver.sync(member, 1, instance="one")
    answer = driver.joined(driver.join(instance="one", protocols=(("b", b""),)))
    assert (answer.generation_id, answer.protocol_name) == (2, "b")


def test_a_static_member_that_comes_back_while_assignments_are_awaited_starts_a_rebalance() -> None:
    driver = Driver()
    first, _ = static_pair(driver)
    driver.join(first, instance="one")
    parked = driver.join(instance="two")
    assert driver.joined(parked).generation_id == 3
    parked_sync = driver.sync(driver.joined(parked).member_id, 3, instance="two")
    driver.join(instance="two")
    assert driver.synced(parked_sync).error is ErrorCode.FENCED_INSTANCE_ID
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def test_a_parked_static_join_is_fenced_by_a_newer_one() -> None:
    driver = Driver()
    static_pair(driver)
    driver.join(instance="three")
    older = driver.join(instance="two")
    newer = driver.join(instance="two")
    answer = driver.joined(older)
    assert answer.error is ErrorCode.FENCED_INSTANCE_ID
    assert answer.member_id
    assert newer not in driver.answers


def test_an_unknown_static_instance_with_a_member_id_is_refused() -> None:
    driver = Driver()
    first, _ = static_pair(driver)
    assert driver.joined(driver.join(first, instance="other")).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(first, 2, "other") is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_keep_their_place_over_a_rebalance_they_miss() -> None:
    driver = Driver()
    first, second = static_pair(driver)
    for member in (first, second):
        driver.group.roster.members[member].session_timeout_ms = 200_000
        driver.heartbeat(member, 2)
    parked = driver.join(instance="three")
    driver.after(60_000)
    answer = driver.joined(parked)
    assert {member.group_instance_id for member in answer.members} == {"one", "two", "three"}
    assert answer.leader == answer.member_id, "who leads must be there"


def test_with_only_absent_static_members_the_phase_goes_on_until_their_sessions_end() -> None:
    driver = Driver()
    first, second = static_pair(driver)
    driver.new_member(rebalance_ms=5_000)
    newcomer = driver.group.roster.members[next(iter(reversed(driver.group.roster.members)))]
    driver.leave(Identity(newcomer.member_id))
    driver.after(9_000)
    assert driver.group.state is GroupState.PREPARING_REBALANCE
    driver.after(60_000)
    assert driver.group.state is GroupState.EMPTY
    assert driver.heartbeat(first, 2, "one") is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(second, 2, "two") is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    driver = Driver()
    first, second = static_pair(driver)
    assert driver.leave(Identity("", "two"), Identity("", "nobody"), Identity("")) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert driver.heartbeat(second, 2, "two") is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(first, 2, "one") is ErrorCode.REBALANCE_IN_PROGRESS
