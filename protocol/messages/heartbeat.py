"""Heartbeat (12): a member of a classic group is alive, and learns of rebalances."""

from protocol.message import field, int16, int32, message


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    group_id: str
    generation_id: int32
    member_id: str
    group_instance_id: str | None = field("3+", nullable="3+", default=None)


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: int32 = field("1+", default=0)
    error_code: int16 = 0
