"""JoinGroup: a consumer becomes, or stays, a member of a group; parked until its generation is complete."""

from typing import Final

from gateway.context import Context, Later
from gateway.groups.messages import Join, JoinAnswer
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

MEMBER_ID_REQUIRED_FROM: Final = 4
"""From this version on a dynamic member learns its id first and joins with it (KIP-394)."""
PROTOCOL_NAME_NULLABLE_FROM: Final = 7
SKIP_ASSIGNMENT_FROM: Final = 9
"""From this version on a static leader can be told to keep the assignment (KIP-814)."""


def handle(request: JoinGroupRequest, context: Context) -> Later[JoinGroupResponse]:
    """Hand the request to the group; whoever completes the generation resolves the answer."""
    version = context.api_version
    later: Later[JoinGroupResponse] = Later()
    join = Join(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=context.client.client_id or "",
        client_host=f"/{context.client.host}",  # as Java prints an address, and so as tools show it
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if request.rebalance_timeout_ms > 0 else request.session_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        must_know_member_id=version >= MEMBER_ID_REQUIRED_FROM,
        can_skip_assignment=version >= SKIP_ASSIGNMENT_FROM,
    )
    context.coordinator.join(request.group_id, join, lambda answer: later.resolve(_response(answer, version)))
    return later


def _response(answer: JoinAnswer, version: int) -> JoinGroupResponse:
    protocol_name = answer.protocol_name
    if protocol_name is None and version < PROTOCOL_NAME_NULLABLE_FROM:
        protocol_name = ""
    return JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type,
        protocol_name=protocol_name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata,
            )
            for member in answer.members
        ],
    )
