"""DescribeGroups (15): state and members of classic groups."""

from protocol.message import field, int16, int32, message, struct
from protocol.messages.metadata import UNKNOWN_OPERATIONS


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: list[str]
    include_authorized_operations: bool = field("3+", default=False)


@struct
class DescribedGroupMember:
    member_id: str
    group_instance_id: str | None = field("4+", nullable="4+", default=None)
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes


@struct
class DescribedGroup:
    error_code: int16 = 0
    error_message: str | None = field("6+", nullable="6+", default=None)
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: list[DescribedGroupMember]
    authorized_operations: int32 = field("3+", default=UNKNOWN_OPERATIONS)


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: int32 = field("1+", default=0)
    groups: list[DescribedGroup]
