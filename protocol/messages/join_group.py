"""JoinGroup (11): become a member of a classic group; the leader learns all members."""

from protocol.message import field, int16, int32, message, struct


@struct
class JoinGroupRequestProtocol:
    name: str
    metadata: bytes


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    """`rebalance_timeout_ms` -1 (version 0) means the session timeout."""

    group_id: str
    session_timeout_ms: int32
    rebalance_timeout_ms: int32 = field("1+", default=-1)
    member_id: str
    group_instance_id: str | None = field("5+", nullable="5+", default=None)
    protocol_type: str
    protocols: list[JoinGroupRequestProtocol]
    reason: str | None = field("8+", nullable="8+", default=None)


@struct
class JoinGroupResponseMember:
    member_id: str
    group_instance_id: str | None = field("5+", nullable="5+", default=None)
    metadata: bytes


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    """`protocol_name` may be null only from version 7 on; before it, none is the empty string."""

    throttle_time_ms: int32 = field("2+", default=0)
    error_code: int16 = 0
    generation_id: int32 = -1
    protocol_type: str | None = field("7+", nullable="7+", default=None)
    protocol_name: str | None = field(nullable="7+")
    leader: str
    skip_assignment: bool = field("9+", default=False)
    member_id: str
    members: list[JoinGroupResponseMember]
