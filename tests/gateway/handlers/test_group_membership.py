"""FindCoordinator, JoinGroup, SyncGroup, Heartbeat and LeaveGroup in every version."""

from pathlib import Path

import pytest

from gateway.groups import GroupConfig
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequestAssignment
from tests.gateway.handlers.group_service import SUBSCRIPTION, GroupService, join, sync, with_service


@pytest.mark.parametrize("version", range(4))
def test_the_coordinator_is_this_broker(version: int, tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        answer = await service.ask(FindCoordinatorRequest(key="g"), version)
        assert (answer.error_code, answer.node_id) == (0, 1)
        assert (answer.host, answer.port) == ("gateway.example", 9092)

    with_service(tmp_path, scenario)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_coordinators_are_found_in_batches(version: int, tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        answer = await service.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"]), version)
        assert [(one.key, one.node_id, one.error_code) for one in answer.coordinators] == [
            ("a", 1, 0),
            ("b", 1, 0),
        ]

    with_service(tmp_path, scenario)


@pytest.mark.parametrize("version", [1, 3, 4, 6])
@pytest.mark.parametrize(
    ("key_type", "error", "reason"),
    [
        (1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "read-only"),
        (2, ErrorCode.INVALID_REQUEST, "key type 2"),
        (-1, ErrorCode.INVALID_REQUEST, "key type -1"),
    ],
)
def test_other_coordinators_are_refused_clearly(
    version: int, key_type: int, error: ErrorCode, reason: str, tmp_path: Path
) -> None:
    async def scenario(service: GroupService) -> None:
        request = FindCoordinatorRequest(
            key="t" if version < 4 else "", key_type=key_type, coordinator_keys=["t"] if version >= 4 else []
        )
        answer = await service.ask(request, version)
        one = answer if version < 4 else answer.coordinators[0]
        assert (one.error_code, one.node_id, one.host, one.port) == (error, -1, "", -1)
        assert reason in one.error_message

    with_service(tmp_path, scenario)


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_in_every_version(version: int, tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        first = await service.ask(join("g", version=version), version)
        if version >= 4:
            assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
            assert first.member_id == "client-1"
            assert first.protocol_name == ("" if version < 7 else None)
            first = await service.ask(join("g", first.member_id, version=version), version)
        assert first.error_code == 0
        assert (first.generation_id, first.protocol_name) == (1, "range")
        assert first.protocol_type == ("consumer" if version >= 7 else None)
        assert first.leader == first.member_id == first.members[0].member_id == "client-1"
        assert bytes(first.members[0].metadata) == SUBSCRIPTION

    with_service(tmp_path, scenario)


def test_a_client_without_a_client_id_gets_a_member_id_too(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        answer = await service.ask(join("g"), 9, client_id=None)
        assert answer.member_id == "-1"

    with_service(tmp_path, scenario)


@pytest.mark.parametrize("version", range(6))
def test_a_member_syncs_in_every_version(version: int, tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        member_id = await service.member()
        answer = await service.ask(
            sync(group_id="g", generation_id=1, member_id=member_id, assignments=[]), version
        )
        assert (answer.error_code, bytes(answer.assignment)) == (0, b"all")
        assert answer.protocol_name == ("range" if version >= 5 else None)
        wrong = await service.ask(
            sync(group_id="g", generation_id=9, member_id=member_id, assignments=[]), version
        )
        assert wrong.error_code == ErrorCode.ILLEGAL_GENERATION
        nobody = await service.ask(
            sync(group_id="none", generation_id=1, member_id=member_id, assignments=[]), version
        )
        assert nobody.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    with_service(tmp_path, scenario)


def test_sync_refuses_another_protocol(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        member_id = await service.member()
        for name in ("sticky", None):
            request = sync(
                group_id="g", generation_id=1, member_id=member_id, protocol_name=name, assignments=[]
            )
            answer = await service.ask(request, 5)
            assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    with_service(tmp_path, scenario)


@pytest.mark.parametrize("version", range(5))
def test_heartbeats_in_every_version(version: int, tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        member_id = await service.member()

        async def error_of(member: str, generation: int, group_id: str = "g") -> int:
            request = HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member)
            return int((await service.ask(request, version)).error_code)

        assert await error_of(member_id, 1) == ErrorCode.NONE
        assert await error_of(member_id, 2) == ErrorCode.ILLEGAL_GENERATION
        assert await error_of("other", 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await error_of(member_id, 1, "none") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await error_of(member_id, 1, "") == ErrorCode.INVALID_GROUP_ID
        given = await service.ask(join("g"), 4)
        parked = service.begin(join("g", given.member_id), 4)
        assert await error_of(member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        assert not parked.done()
        joined = await service.ask(join("g", member_id), 9)
        assert joined.generation_id == (await parked).generation_id == 2

    with_service(tmp_path, scenario)


def test_a_replaced_static_member_is_fenced(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        old = await service.ask(join("g", group_instance_id="one"), 5)
        new = await service.ask(join("g", group_instance_id="one"), 9)
        beat = HeartbeatRequest(
            group_id="g", generation_id=1, member_id=old.member_id, group_instance_id="one"
        )
        assert (await service.ask(beat, 3)).error_code == ErrorCode.FENCED_INSTANCE_ID
        assert new.member_id != old.member_id

    with_service(tmp_path, scenario)


@pytest.mark.parametrize("version", range(3))
def test_one_member_leaves(version: int, tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        member_id = await service.member()
        unknown = await service.ask(LeaveGroupRequest(group_id="g", member_id="other"), version)
        assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (
            await service.ask(LeaveGroupRequest(group_id="g", member_id=member_id), version)
        ).error_code == 0
        again = await service.ask(LeaveGroupRequest(group_id="g", member_id=member_id), version)
        assert again.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        unnamed = await service.ask(LeaveGroupRequest(group_id="", member_id=member_id), version)
        assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID

    with_service(tmp_path, scenario)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_members_leave_in_batches(version: int, tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        static = await service.ask(join("g", group_instance_id="one"), 5)
        request = LeaveGroupRequest(
            group_id="g",
            members=[
                MemberIdentity(member_id="other"),
                MemberIdentity(member_id="wrong", group_instance_id="one"),
                MemberIdentity(member_id="", group_instance_id="one"),
            ],
        )
        answer = await service.ask(request, version)
        assert answer.error_code == 0
        assert [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members] == [
            ("other", None, ErrorCode.UNKNOWN_MEMBER_ID),
            ("wrong", "one", ErrorCode.FENCED_INSTANCE_ID),
            ("", "one", 0),
        ]
        assert static.error_code == 0
        gone = await service.ask(
            LeaveGroupRequest(group_id="none", members=[MemberIdentity(member_id="x")]), version
        )
        assert [one.error_code for one in gone.members] == [ErrorCode.UNKNOWN_MEMBER_ID]

    with_service(tmp_path, scenario)


def test_the_loops_one_timer_ends_the_initial_delay_and_sessions(tmp_path: Path) -> None:
    config = GroupConfig(min_session_timeout_ms=1, initial_rebalance_delay_ms=30)

    async def scenario(service: GroupService) -> None:
        request = join("g", session_timeout_ms=50, version=3)
        first, second = service.begin(request, 3), service.begin(request, 3)
        assert not first.done()
        assert (await first).generation_id == (await second).generation_id == 1
        follower = next(one for one in (first.result(), second.result()) if one.leader != one.member_id)
        parked = service.begin(
            sync(group_id="g", generation_id=1, member_id=follower.member_id, assignments=[]), 3
        )
        # The leader says nothing more: its session ends, and the follower is called to a new generation.
        assert (await parked).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    with_service(tmp_path, scenario, config)


def test_an_answer_may_bring_the_next_request_at_once(tmp_path: Path) -> None:
    """A connection serves its next frame while the coordinator is still handing out answers."""

    async def scenario(service: GroupService) -> None:
        first = await service.member()
        given = await service.ask(join("g"), 9)
        parked = service.begin(join("g", given.member_id), 9)
        synced: list[object] = []

        def sync_at_once(future: object) -> None:
            request = sync(
                group_id="g",
                generation_id=2,
                member_id=first,
                assignments=[SyncGroupRequestAssignment(member_id=given.member_id, assignment=b"x")],
            )
            synced.append(service.begin(request, 5))

        again = service.begin(join("g", first), 9)
        again.add_done_callback(sync_at_once)
        await again
        await parked
        answer = await service.ask(
            sync(group_id="g", generation_id=2, member_id=given.member_id, assignments=[]), 5
        )
        assert bytes(answer.assignment) == b"x"
        assert len(synced) == 1

    with_service(tmp_path, scenario)


def test_a_restart_sends_members_to_join_again(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        member_id = await service.member()
        await service.restart()
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
        assert (await service.ask(beat, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await service.ask(join("g", member_id), 9)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert await service.member()

    with_service(tmp_path, scenario)


def test_protocols_without_a_common_one_are_refused(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        await service.member()
        other = [JoinGroupRequestProtocol(name="roundrobin", metadata=b"")]
        answer = await service.ask(join("g", protocols=other), 9)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    with_service(tmp_path, scenario)
