"""From (API key, version) to the functions that decode, answer and encode it."""

import asyncio
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from gateway.broker.apis import Api, Handler
from gateway.observe import ApiFigures, Metrics
from protocol import message
from protocol.errors import ErrorCode
from protocol.header import API_VERSIONS_KEY, response_header_is_flexible
from protocol.message import Buffer
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse


class Route:
    """One version of one API. Made on its first request, then found with one look-up."""

    __slots__ = (
        "_shared",
        "api_key",
        "decode",
        "encode",
        "figures",
        "flexible",
        "flexible_request",
        "handle",
        "has_error_code",
        "name",
        "version",
    )

    def __init__(self, api: Api, version: int, figures: ApiFigures) -> None:
        self.name = api.name
        self.api_key = api.served.api_key
        self.version = version
        self.handle: Handler = api.handle
        self._shared: tuple[object, list[Buffer]] | None = None
        self.decode: Callable[[bytes, int], Any] = message.decoder(api.request, version)
        self.flexible = response_header_is_flexible(self.api_key, version)
        """Whether the response's header ends with (empty) tagged fields."""
        self.flexible_request = message.is_flexible(api.request, version)
        """Whether the request's header has tagged fields."""
        self.figures = figures
        response = response_of(api.request)
        self.encode: Callable[[Any], list[Buffer]] = message.encoder(response, version)
        self.has_error_code = hasattr(response, "error_code")
        """Whether the responses have an error code of their own, outside their topics and partitions."""

    def encode_shared(self, response: object) -> list[Buffer]:
        """Encode a response that many connections may get at the same moment; once for all of them."""
        shared = self._shared
        if shared is None or shared[0] is not response:
            if shared is None:
                # Kept for this turn of the event loop only, for it holds on to records.
                asyncio.get_running_loop().call_soon(self._forget_shared)
            shared = self._shared = (response, self.encode(response))
        return list(shared[1])

    def _forget_shared(self) -> None:
        self._shared = None


def response_of(request: type) -> type:
    """The response of a request: it stands beside it, under the same name."""
    found: type = getattr(
        sys.modules[request.__module__], request.__name__.removesuffix("Request") + "Response"
    )
    return found


class Dispatcher:
    """The routes of all APIs served."""

    def __init__(self, apis: Iterable[Api], metrics: Metrics) -> None:
        self._apis: Final = {api.served.api_key: api for api in apis}
        self._metrics = metrics
        self.routes: dict[int, Route] = {}
        """Those in use so far, by `api_key << 16 | version`."""

    def route(self, api_key: int, version: int) -> Route | None:
        """The route for a request, or None if this API is not served, or not in this version."""
        found = self.routes.get(api_key << 16 | version)
        if found is None and (api := self._apis.get(api_key)) is not None:
            served = api.served
            if served.min_version <= version <= served.max_version:
                found = Route(api, version, self._metrics.api(api.name))
                self.routes[api_key << 16 | version] = found
        return found

    def unsupported_api_versions(self) -> list[Buffer]:
        """The body that answers an ApiVersions of a version not served: error 35 in version 0 (KIP-511).

        It lists ApiVersions itself, so that the client asks again in a version that we know.
        """
        known = self._apis[API_VERSIONS_KEY].served
        self._metrics.api("ApiVersions").failed(ErrorCode.UNSUPPORTED_VERSION.name)
        return message.encode(
            ApiVersionsResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                api_keys=[
                    ApiVersion(
                        api_key=known.api_key, min_version=known.min_version, max_version=known.max_version
                    )
                ],
            ),
            0,
        )
