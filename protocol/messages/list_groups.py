"""ListGroups (16): all groups, by state (KIP-518) and by type (KIP-848)."""

from protocol.message import field, int16, int32, message, struct


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """Empty filters let everything pass."""

    states_filter: list[str] = field("4+", default_factory=list)
    types_filter: list[str] = field("5+", default_factory=list)


@struct
class ListedGroup:
    group_id: str
    protocol_type: str
    group_state: str = field("4+", default="")
    group_type: str = field("5+", default="")


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: int32 = field("1+", default=0)
    error_code: int16 = 0
    groups: list[ListedGroup]
