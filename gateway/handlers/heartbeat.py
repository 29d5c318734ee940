"""Heartbeat: a member lives on, and learns when it has to join again."""

from gateway.context import Context
from gateway.groups.messages import Identity
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(request: HeartbeatRequest, context: Context) -> HeartbeatResponse:
    """Note the sign of life."""
    error = ErrorCode.NONE
    try:
        context.coordinator.heartbeat(
            request.group_id, Identity(request.member_id, request.group_instance_id), request.generation_id
        )
    except KafkaError as refusal:
        error = refusal.code
    return HeartbeatResponse(error_code=error)
