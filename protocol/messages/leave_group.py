"""LeaveGroup (13): one member leaves a classic group, or several at once from version 3 on (KIP-345)."""

from protocol.message import field, int16, int32, message, struct


@struct
class MemberIdentity:
    member_id: str
    group_instance_id: str | None = field(nullable="3+", default=None)
    reason: str | None = field("5+", nullable="5+", default=None)


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    group_id: str
    member_id: str = field("0-2", default="")
    members: list[MemberIdentity] = field("3+", default_factory=list)


@struct
class MemberResponse:
    member_id: str
    group_instance_id: str | None = field(nullable="3+")
    error_code: int16 = 0


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    throttle_time_ms: int32 = field("1+", default=0)
    error_code: int16 = 0
    members: list[MemberResponse] = field("3+", default_factory=list)
