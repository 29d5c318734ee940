"""ListGroups: all groups, filtered by state (KIP-518) and by type (KIP-848)."""

from typing import Final

from gateway.context import Context
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

GROUP_TYPE: Final = "classic"
"""The only type of group here. Filters are compared without regard to case, as Kafka does."""


def handle(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    """List what passes both filters; an empty filter lets everything pass."""
    states = {state.lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    if types and GROUP_TYPE not in types:
        return ListGroupsResponse(groups=[])
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=summary.group_id,
                protocol_type=summary.protocol_type,
                group_state=summary.state.value,
                group_type=GROUP_TYPE,
            )
            for summary in context.coordinator.summaries()
            if not states or summary.state.value.lower() in states
        ]
    )
