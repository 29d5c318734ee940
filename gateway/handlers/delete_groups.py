"""DeleteGroups: forget groups that have no members, and what they committed."""

from functools import partial

from gateway.context import Context, Later
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(request: DeleteGroupsRequest, context: Context) -> Later[DeleteGroupsResponse]:
    """Delete each group by itself; answered when the last one is gone from the disk."""
    later: Later[DeleteGroupsResponse] = Later()
    errors: dict[str, ErrorCode] = {}
    group_ids = list(dict.fromkeys(request.groups_names))

    def note(group_id: str, error: KafkaError | None) -> None:
        errors[group_id] = error.code if error is not None else ErrorCode.NONE
        if len(errors) == len(group_ids):
            later.resolve(_response(group_ids, errors))

    if not group_ids:
        later.resolve(_response([], {}))
    for group_id in group_ids:
        context.coordinator.delete(group_id, partial(note, group_id))
    return later


def _response(group_ids: list[str], errors: dict[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=errors[group_id]) for group_id in group_ids
        ]
    )
