"""The group state machine: members that come, change, fall silent and go."""

import pytest

from gateway.groups.messages import Identity, Sync
from gateway.groups.state import GroupState
from protocol.errors import ErrorCode
from tests.gateway.groups.group_driver import Driver


def test_one_member_joins_and_leads_at_once() -> None:
    driver = Driver()
    first = driver.joined(driver.join())
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id == "client-1"
    assert first.generation_id == -1
    joined = driver.joined(driver.join("client-1"))
    assert joined.error is ErrorCode.NONE
    assert joined.generation_id == 1
    assert joined.leader == joined.member_id == "client-1"
    assert joined.protocol_type == "consumer"
    assert joined.protocol_name == "range"
    assert [(member.member_id, member.metadata) for member in joined.members] == [("client-1", b"topics-a")]
    assert driver.group.state is GroupState.COMPLETING_REBALANCE
    synced = driver.synced(driver.sync("client-1", 1, client_1=b"all of it"))
    assert (synced.error, synced.assignment, synced.protocol_name) == (ErrorCode.NONE, b"all of it", "range")
    assert driver.group.state is GroupState.STABLE
    assert driver.heartbeat("client-1", 1) is ErrorCode.NONE


def test_version_3_gets_its_member_id_with_the_first_join() -> None:
    driver = Driver()
    joined = driver.joined(driver.join(version=3))
    assert (joined.error, joined.member_id, joined.generation_id) == (ErrorCode.NONE, "client-1", 1)


def test_the_initial_delay_is_extended_while_members_come() -> None:
    driver = Driver(initial_rebalance_delay_ms=3_000)
    first = driver.join(version=3)
    driver.after(2_000)
    second = driver.join(version=3)
    driver.after(1_500)
    assert first not in driver.answers
    driver.after(2_600)
    assert driver.joined(first).generation_id == driver.joined(second).generation_id == 1
    assert len(driver.joined(first).members) == 2
    assert driver.joined(second).members == ()
    assert driver.joined(second).leader == driver.joined(first).member_id


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    driver = Driver(initial_rebalance_delay_ms=3_000)
    tickets = [driver.join(version=3, rebalance_ms=7_000)]
    for _ in range(20):
        driver.after(500)
        tickets.append(driver.join(version=3, rebalance_ms=7_000))
        if tickets[0] in driver.answers:
            break
    assert tickets[0] in driver.answers
    assert driver.now_ms - 1_000_000 <= 10_000


def test_a_second_member_is_taken_in_at_the_heartbeat_of_the_first() -> None:
    driver = Driver()
    [first] = driver.stable()
    second = driver.new_member()
    parked = driver.last
    assert driver.group.state is GroupState.PREPARING_REBALANCE
    assert parked not in driver.answers
    assert driver.heartbeat(first, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.commit(first, 1) is ErrorCode.NONE
    assert driver.synced(driver.sync(first, 1)).error is ErrorCode.REBALANCE_IN_PROGRESS
    again = driver.joined(driver.join(first))
    assert again.generation_id == driver.joined(parked).generation_id == 2
    assert {member.member_id for member in again.members} == {first, second}
    assert driver.commit(first, 1) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit(first, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(first, 2) is ErrorCode.NONE
    waiting = driver.sync(second, 2)
    assert waiting not in driver.answers
    driver.sync(first, 2, **{first.replace("-", "_"): b"x", second.replace("-", "_"): b"y"})
    assert driver.synced(waiting).assignment == b"y"
    assert driver.commit(second, 2) is ErrorCode.NONE


def test_five_members_share_one_generation() -> None:
    driver = Driver()
    members = driver.stable(5)
    assert len(driver.group.describe().members) == 5
    assert {driver.heartbeat(member, driver.group.generation_id) for member in members} == {ErrorCode.NONE}


def test_a_member_that_does_not_rejoin_is_dropped_after_the_rebalance_timeout() -> None:
    driver = Driver()
    [first] = driver.stable(session_ms=100_000)
    second = driver.new_member()
    parked = driver.last
    driver.after(59_999)
    assert parked not in driver.answers
    driver.after(1)
    assert driver.joined(parked).leader == second
    assert driver.joined(parked).generation_id == 2
    assert driver.heartbeat(first, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_expires_and_the_others_rebalance() -> None:
    driver = Driver()
    first, second = driver.stable(2)
    driver.after(6_000)
    assert driver.heartbeat(second, 2) is ErrorCode.NONE
    driver.after(6_000)
    assert driver.group.state is GroupState.PREPARING_REBALANCE
    assert driver.heartbeat(second, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    joined = driver.joined(driver.join(second))
    assert (joined.leader, joined.generation_id) == (second, 3)
    assert driver.heartbeat(first, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_member_expires_and_the_group_is_empty() -> None:
    driver = Driver()
    [member] = driver.stable()
    driver.after(10_000)
    assert driver.group.state is GroupState.EMPTY
    assert driver.group.generation_id == 2
    assert driver.group.is_disposable
    assert driver.commit(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit("", -1) is ErrorCode.NONE
    assert driver.group.wake_ms is None


def test_a_commit_is_a_sign_of_life() -> None:
    driver = Driver()
    [member] = driver.stable()
    for _ in range(5):
        driver.after(8_000)
        assert driver.commit(member, 1) is ErrorCode.NONE


def test_a_member_that_waits_for_the_others_does_not_expire() -> None:
    driver = Driver()
    [first] = driver.stable(session_ms=50_000)
    second = driver.new_member(session_ms=6_000)
    parked = driver.last
    driver.after(20_000)
    driver.join(first)
    assert driver.joined(parked).error is ErrorCode.NONE
    driver.after(5_999)
    assert driver.heartbeat(second, 2) is ErrorCode.NONE


def test_a_new_member_without_answer_is_given_up() -> None:
    driver = Driver()
    [first] = driver.stable(session_ms=1_000_000, rebalance_ms=1_000_000)
    driver.new_member(rebalance_ms=1_000_000)
    parked = driver.last
    driver.after(300_000)
    answer = driver.joined(parked)
    assert (answer.error, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert driver.group.state is GroupState.PREPARING_REBALANCE
    driver.join(first)
    assert driver.group.generation_id == 2


def test_an_id_that_is_not_used_lapses() -> None:
    driver = Driver()
    given = driver.joined(driver.join()).member_id
    driver.after(10_000)
    assert driver.joined(driver.join(given)).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.group.wake_ms is None


def test_the_phase_waits_for_an_id_that_was_given_out() -> None:
    driver = Driver()
    [first] = driver.stable()
    driver.new_member()
    given = driver.joined(driver.join()).member_id
    again = driver.join(first)
    assert again not in driver.answers
    assert driver.leave(Identity(given)) == [ErrorCode.NONE]
    assert driver.joined(again).generation_id == 2


def test_an_unused_id_that_leaves_disturbs_nobody() -> None:
    driver = Driver()
    driver.stable()
    given = driver.joined(driver.join()).member_id
    assert driver.leave(Identity(given)) == [ErrorCode.NONE]
    assert driver.group.state is GroupState.STABLE


@pytest.mark.parametrize("protocols", [(), (("cooperative-sticky", b""),)])
def test_a_member_without_a_common_protocol_is_refused(protocols: tuple[tuple[str, bytes], ...]) -> None:
    driver = Driver()
    driver.stable()
    assert driver.joined(driver.join(protocols=protocols)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.joined(driver.join(protocol_type="connect")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.group.state is GroupState.STABLE


def test_an_empty_group_wants_a_protocol_and_a_type() -> None:
    driver = Driver()
    assert driver.joined(driver.join(protocols=())).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.joined(driver.join(protocol_type="")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_that_most_members_like_best_is_selected() -> None:
    driver = Driver()
    first = driver.new_member(protocols=(("a", b"1"), ("b", b"1"), ("c", b"1")))
    driver.new_member(protocols=(("b", b"2"), ("a", b"2")))
    driver.new_member(protocols=(("b", b"3"), ("a", b"3")))
    answer = driver.joined(driver.join(first, protocols=(("a", b"1"), ("b", b"1"), ("c", b"1"))))
    assert answer.protocol_name == "b"
    assert sorted(member.metadata for member in answer.members) == [b"1", b"2", b"3"]


def test_the_protocol_changes_with_the_members() -> None:
    driver = Driver()
    [first] = driver.stable(protocols=(("range", b"r"), ("sticky", b"s")))
    driver.new_member(protocols=(("sticky", b"s"),))
    answer = driver.joined(driver.join(first, protocols=(("range", b"r"), ("sticky", b"s"))))
    assert answer.protocol_name == "sticky"


def test_a_follower_that_joins_again_unchanged_disturbs_nobody() -> None:
    driver = Driver()
    _, second = driver.stable(2)
    answer = driver.joined(driver.join(second))
    assert (answer.error, answer.generation_id, answer.members) == (ErrorCode.NONE, 2, ())
    assert driver.group.state is GroupState.STABLE
    assert driver.synced(driver.sync(second, 2)).assignment == b"a1"


def test_a_changed_follower_and_a_returning_leader_start_a_rebalance() -> None:
    driver = Driver()
    first, second = driver.stable(2)
    driver.join(second, protocols=(("range", b"topics-b"),))
    assert driver.group.state is GroupState.PREPARING_REBALANCE
    driver.join(first)
    driver.settle([first, second])
    driver.join(first)
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def test_a_lost_join_answer_is_given_again() -> None:
    driver = Driver()
    member = driver.new_member()
    first, again = driver.joined(driver.last), driver.joined(driver.join(member))
    assert (again.generation_id, again.members) == (1, first.members)
    assert driver.group.state is GroupState.COMPLETING_REBALANCE


def test_a_join_sent_twice_answers_the_older_one() -> None:
    driver = Driver()
    [first] = driver.stable()
    second = driver.new_member()
    older, newer = driver.last, driver.join(second)
    assert driver.joined(older).error is ErrorCode.REBALANCE_IN_PROGRESS
    driver.join(first)
    assert driver.joined(newer).error is ErrorCode.NONE


def test_a_new_member_cancels_parked_syncs() -> None:
    driver = Driver()
    [first] = driver.stable()
    second = driver.new_member()
    driver.join(first)
    parked = driver.sync(second, 2)
    driver.new_member()
    assert driver.synced(parked).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group.state is GroupState.PREPARING_REBALANCE


def test_members_that_never_sync_are_dropped() -> None:
    driver = Driver()
    [first] = driver.stable()
    second = driver.new_member()
    driver.join(first)
    driver.sync(first, 2)
    assert driver.group.state is GroupState.STABLE
    for _ in range(12):
        driver.after(5_000)
        for member in (first, second):
            driver.heartbeat(member, 2)
    assert driver.heartbeat(second, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(first, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_sync_checks_member_generation_and_protocol() -> None:
    driver = Driver()
    [member] = driver.stable()
    assert driver.synced(driver.sync("other", 1)).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.synced(driver.sync(member, 7)).error is ErrorCode.ILLEGAL_GENERATION
    wrong = Sync(member_id=member, group_instance_id=None, generation_id=1, protocol_name="sticky")
    [answer] = driver.group.sync(wrong, 99, driver.now_ms)
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    right = Sync(
        member_id=member,
        group_instance_id=None,
        generation_id=1,
        protocol_name="range",
        protocol_type="consumer",
    )
    [answer] = driver.group.sync(right, 100, driver.now_ms)
    assert answer.error is ErrorCode.NONE


def test_heartbeat_checks_member_and_generation() -> None:
    driver = Driver()
    [member] = driver.stable()
    assert driver.heartbeat("other", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(member, 0) is ErrorCode.ILLEGAL_GENERATION


def test_commits_with_and_without_membership() -> None:
    driver = Driver()
    assert driver.commit("", -1) is ErrorCode.NONE
    [member] = driver.stable()
    assert driver.commit("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit(member, -1) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit("other", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit(member, 1) is ErrorCode.NONE


def test_leaving_in_batches() -> None:
    driver = Driver()
    first, second, third = driver.stable(3)
    assert driver.leave(Identity(second), Identity("other"), Identity(third)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert driver.joined(driver.join(first)).members[0].member_id == first
    assert driver.leave(Identity(first)) == [ErrorCode.NONE]
    assert driver.group.state is GroupState.EMPTY


def test_who_leaves_while_parked_is_told() -> None:
    driver = Driver()
    [first] = driver.stable()
    second = driver.new_member()
    parked = driver.last
    assert driver.leave(Identity(second)) == [ErrorCode.NONE]
    assert driver.joined(parked).error is ErrorCode.UNKNOWN_MEMBER_ID
    again = driver.join(first)
    assert driver.joined(again).generation_id == 2


def test_the_size_of_a_group_is_bounded() -> None:
    driver = Driver(max_members=2)
    driver.stable(2)
    refused = driver.joined(driver.join())
    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")


def test_member_ids_given_out_are_bounded() -> None:
    driver = Driver(max_members=2)
    codes = [driver.joined(driver.join()).error for _ in range(3)]
    assert codes == [ErrorCode.MEMBER_ID_REQUIRED] * 2 + [ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_what_a_group_holds_is_bounded() -> None:
    driver = Driver(max_group_bytes=2_100)
    big = (("range", b"x" * 1_100),)
    assert driver.joined(driver.join(protocols=big)).error is ErrorCode.MESSAGE_TOO_LARGE
    member = driver.new_member()
    key = member.replace("-", "_")
    refused = driver.sync(member, 1, **{key: b"y" * 1_200})
    assert driver.synced(refused).error is ErrorCode.MESSAGE_TOO_LARGE
    assert driver.synced(driver.sync(member, 1, **{key: b"y" * 900})).error is ErrorCode.NONE


# What administrators see.


def test_a_description_shows_metadata_only_when_stable() -> None:
    driver = Driver()
    [member] = driver.stable()
    stable = driver.group.describe()
    assert (stable.state.value, stable.protocol_type, stable.protocol) == ("Stable", "consumer", "range")
    assert (stable.members[0].metadata, stable.members[0].assignment) == (b"topics-a", b"a0")
    driver.join(member, protocols=(("range", b"topics-b"),))
    moving = driver.group.describe()
    assert (moving.state.value, moving.protocol) == ("CompletingRebalance", "")
    assert (moving.members[0].metadata, moving.members[0].client_host) == (b"", "/127.0.0.1")


def test_a_deleted_group_sends_everybody_away() -> None:
    driver = Driver()
    driver.group.bury()
    assert driver.joined(driver.join()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.heartbeat("x", 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.group.describe().state is GroupState.DEAD
