"""LeaveGroup: members go at once instead of expiring; several in one request from version 3 on (KIP-345)."""

from typing import Final

from gateway.context import Context
from gateway.groups.messages import Identity
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

BATCHED_FROM: Final = 3


def handle(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse:
    """Remove each member by itself; one that is unknown does not keep the others."""
    batched = context.api_version >= BATCHED_FROM
    if batched:
        identities = [Identity(member.member_id, member.group_instance_id) for member in request.members]
    else:
        identities = [Identity(request.member_id)]
    try:
        errors = context.coordinator.leave(request.group_id, identities)
    except KafkaError as refusal:
        return LeaveGroupResponse(error_code=refusal.code)
    if not batched:
        return LeaveGroupResponse(error_code=errors[0])
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
            )
            for identity, error in zip(identities, errors, strict=True)
        ],
    )
