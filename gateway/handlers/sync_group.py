"""SyncGroup: the leader hands in the assignment, every member takes its own; parked until the leader's
came."""

from typing import Final

from gateway.context import Context, Later
from gateway.groups.messages import Sync, SyncAnswer
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_GIVEN_FROM: Final = 5
"""From this version on a member has to say which protocol it assumes (KIP-559)."""


def handle(request: SyncGroupRequest, context: Context) -> SyncGroupResponse | Later[SyncGroupResponse]:
    """Hand the request to the group; the leader's request resolves everybody's answer."""
    given = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= PROTOCOL_GIVEN_FROM and not given:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, assignment=b"")
    later: Later[SyncGroupResponse] = Later()
    sync = Sync(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple((one.member_id, bytes(one.assignment)) for one in request.assignments),
    )
    context.coordinator.sync(request.group_id, sync, lambda answer: later.resolve(_response(answer)))
    return later


def _response(answer: SyncAnswer) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
