"""SyncGroup (14): the leader hands in the assignment, every member takes its own."""

from protocol.message import field, int16, int32, message, struct


@struct
class SyncGroupRequestAssignment:
    member_id: str
    assignment: bytes


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    group_id: str
    generation_id: int32
    member_id: str
    group_instance_id: str | None = field("3+", nullable="3+", default=None)
    protocol_type: str | None = field("5+", nullable="5+", default=None)
    protocol_name: str | None = field("5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment]


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: int32 = field("1+", default=0)
    error_code: int16 = 0
    protocol_type: str | None = field("5+", nullable="5+", default=None)
    protocol_name: str | None = field("5+", nullable="5+", default=None)
    assignment: bytes
