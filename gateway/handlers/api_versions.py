"""ApiVersions: what the broker serves. Unsupported versions of it the connection answers (KIP-511)."""

import re
from typing import Final

from gateway.context import Context
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

_NAMED_FROM: Final = 3
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")
"""Kafka's own rule for a client's name and version (KIP-511)."""


def handle(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """List the APIs; remember what the client calls itself."""
    error = ErrorCode.NONE
    if context.api_version >= _NAMED_FROM:
        if _SOFTWARE.match(request.client_software_name) and _SOFTWARE.match(request.client_software_version):
            context.client.software_name = request.client_software_name
            context.client.software_version = request.client_software_version
        else:
            error = ErrorCode.INVALID_REQUEST
        if _means_another(request, context):
            error = ErrorCode.REBOOTSTRAP_REQUIRED
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersion(api_key=api.api_key, min_version=api.min_version, max_version=api.max_version)
            for api in context.apis
        ],
    )


def _means_another(request: ApiVersionsRequest, context: Context) -> bool:
    """Whether the client means another cluster or broker (KIP-1242); before v5 it does not say."""
    if request.cluster_id is not None and request.cluster_id != context.cluster_id:
        return True
    return request.node_id not in (-1, context.node_id)
