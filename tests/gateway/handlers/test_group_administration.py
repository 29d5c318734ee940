"""What administrators ask of groups, in every version."""

from pathlib import Path

import pytest

from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from tests.gateway.handlers.group_offsets import commit, fetched
from tests.gateway.handlers.group_service import SUBSCRIPTION, GroupService, with_service


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_with_filters(version: int, tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        await service.member("with members")
        await service.ask(commit(9, 1, group_id="only offsets"), 9)

        async def names(states: list[str], types: list[str]) -> list[str]:
            request = ListGroupsRequest(states_filter=states, types_filter=types)
            answer = await service.ask(request, version)
            assert answer.error_code == 0
            return [group.group_id for group in answer.groups]

        answer = await service.ask(ListGroupsRequest(), version)
        described = [(one.group_id, one.protocol_type) for one in answer.groups]
        assert described == [("with members", "consumer"), ("only offsets", "")]
        if version >= 4:
            assert [one.group_state for one in answer.groups] == ["Stable", "Empty"]
            assert await names(["stable", "Dead"], []) == ["with members"]
            assert await names(["EMPTY"], []) == ["only offsets"]
            assert await names(["nonsense"], []) == []
        if version >= 5:
            assert [one.group_type for one in answer.groups] == ["classic", "classic"]
            assert await names([], ["Classic", "consumer"]) == ["with members", "only offsets"]
            assert await names([], ["consumer"]) == []

    with_service(tmp_path, scenario)


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described(version: int, tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        member_id = await service.member()
        await service.ask(commit(9, 1, group_id="only offsets"), 9)
        answer = await service.ask(DescribeGroupsRequest(groups=["g", "only offsets", "none"]), version)
        stable, empty, none = answer.groups
        assert (stable.group_state, stable.protocol_type, stable.protocol_data) == (
            "Stable",
            "consumer",
            "range",
        )
        [member] = stable.members
        assert (member.member_id, member.client_id, member.client_host) == (member_id, "client", "/127.0.0.1")
        assert bytes(member.member_metadata) == SUBSCRIPTION
        assert bytes(member.member_assignment) == b"all"
        assert (empty.error_code, empty.group_state, empty.members) == (0, "Empty", [])
        assert none.group_state == "Dead"
        assert none.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
        if version >= 6:
            assert none.error_message == "Group none not found."
        if version >= 3:
            assert stable.authorized_operations == -(2**31)
            asked = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
            answer = await service.ask(asked, version)
            assert answer.groups[0].authorized_operations == 0b101001000

    with_service(tmp_path, scenario)


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted(version: int, tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        member_id = await service.member("busy")
        await service.member("left")
        await service.ask(commit(9, 1, group_id="only offsets"), 9)

        async def delete(*names: str) -> list[tuple[str, int]]:
            answer = await service.ask(DeleteGroupsRequest(groups_names=list(names)), version)
            return [(one.group_id, one.error_code) for one in answer.results]

        assert await delete() == []
        assert await delete("busy", "only offsets", "none", "only offsets") == [
            ("busy", ErrorCode.NON_EMPTY_GROUP),
            ("only offsets", 0),
            ("none", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        assert (await fetched(service, 9, "only offsets")).committed_offset == -1
        assert await delete("only offsets") == [("only offsets", ErrorCode.GROUP_ID_NOT_FOUND)]
        await service.ask(
            LeaveGroupRequest(group_id="busy", members=[MemberIdentity(member_id=member_id)]), 3
        )
        assert await delete("busy") == [("busy", 0)]

    with_service(tmp_path, scenario)


def test_a_commit_that_follows_a_deletion_is_kept(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        await service.ask(commit(9, 1), 9)
        deleted = service.begin(DeleteGroupsRequest(groups_names=["g"]), 2)
        committed = service.begin(commit(9, 2), 9)
        await deleted
        await committed
        assert (await fetched(service, 9)).committed_offset == 2

    with_service(tmp_path, scenario)
