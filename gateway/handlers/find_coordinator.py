"""FindCoordinator: this broker coordinates every group; there are no transactions.

Share groups (key type 2, version 6) do not exist here, so their type is as unknown as any other.
"""

from typing import Final

from gateway.context import Context
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import (
    GROUP_KEY_TYPE,
    TRANSACTION_KEY_TYPE,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

BATCHED_FROM: Final = 4
"""From this version on a request names several keys (KIP-699)."""

NO_TRANSACTIONS: Final = "topics are read-only here, so there is no transaction coordinator"


def handle(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    """Answer with this broker for groups, with an error for anything else."""
    error, reason = _refusal(request.key_type)
    if error is ErrorCode.NONE:
        node_id, host, port = context.node_id, context.advertised_host, context.advertised_port
    else:
        node_id, host, port = -1, "", -1
    if context.api_version < BATCHED_FROM:
        return FindCoordinatorResponse(
            error_code=error, error_message=reason, node_id=node_id, host=host, port=port
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(
                key=key, node_id=node_id, host=host, port=port, error_code=error, error_message=reason
            )
            for key in request.coordinator_keys
        ]
    )


def _refusal(key_type: int) -> tuple[ErrorCode, str | None]:
    if key_type == GROUP_KEY_TYPE:
        return ErrorCode.NONE, None
    if key_type == TRANSACTION_KEY_TYPE:
        # Of all codes this is the one at which every transactional producer gives up at once.
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS
    return ErrorCode.INVALID_REQUEST, f"coordinator key type {key_type} is not known here"
