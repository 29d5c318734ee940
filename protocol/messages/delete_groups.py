"""DeleteGroups (42): forget groups without members, and what they committed."""

from protocol.message import int16, int32, message, struct


@message(key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    groups_names: list[str]


@struct
class DeletableGroupResult:
    group_id: str
    error_code: int16 = 0


@message(key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: int32 = 0
    results: list[DeletableGroupResult]
