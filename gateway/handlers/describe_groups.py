"""DescribeGroups: state, protocol and members of groups, as tools show them."""

from typing import Final

from gateway.context import Context
from gateway.groups.state import GroupState
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8
"""READ, DELETE and DESCRIBE as bits of Kafka's AclOperation: what anybody may do to a group here
(KIP-430)."""
NOT_FOUND_FROM: Final = 6
"""From this version on a group that does not exist is an error (KIP-1043); before, it is a dead one."""


def handle(request: DescribeGroupsRequest, context: Context) -> DescribeGroupsResponse:
    """Describe each group by itself."""
    response = DescribeGroupsResponse(groups=[_group(group_id, context) for group_id in request.groups])
    if request.include_authorized_operations:
        for group in response.groups:
            group.authorized_operations = OPERATIONS
    return response


def _group(group_id: str, context: Context) -> DescribedGroup:
    group = context.coordinator.describe(group_id)
    if group is None:
        known = context.api_version < NOT_FOUND_FROM
        return DescribedGroup(
            error_code=ErrorCode.NONE if known else ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=None if known else f"Group {group_id} not found.",
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            protocol_type="",
            protocol_data="",
            members=[],
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
    )
