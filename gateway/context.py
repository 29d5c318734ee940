"""What a handler may know: the log's view, the group coordinator, who asks and in which version.

No bytes and no transport. A handler is a function of (request, context) in a module of `gateway.handlers`: it
returns its response, or a coroutine of it (`async def handle`), or a `Later` if something must happen first.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from protocol.errors import KafkaError

if TYPE_CHECKING:
    from capture.log import Log, LogReader
    from gateway.groups import Coordinator
    from gateway.observe import Metrics
    from gateway.topics.parked import ParkedFetches

NODE_ID = 1
"""The id of the only broker: constant, so that a restart looks to clients like the same broker."""

Response = TypeVar("Response")


class Later(Generic[Response]):
    """A response that is not there yet: a parked Fetch, a member that waits for its group.

    The connection takes it with `then`; whoever made it calls `resolve` once. Requests of one connection are
    answered in order, so nothing else of that connection is answered before it is. A KafkaError in place of
    the response is answered as if the handler had raised it.
    """

    __slots__ = ("_deliver", "_response")

    def __init__(self) -> None:
        self._response: Response | KafkaError | None = None
        self._deliver: Callable[[Response | KafkaError], None] | None = None

    @property
    def resolved(self) -> bool:
        """Whether the response is there."""
        return self._response is not None

    def resolve(self, response: Response | KafkaError) -> None:
        """Give the response; a second call does nothing."""
        if self._response is None:
            self._response = response
            if self._deliver is not None:
                self._deliver(response)

    def then(self, deliver: Callable[[Response | KafkaError], None]) -> None:
        """Call `deliver` with the response, at once if it is there already."""
        self._deliver = deliver
        if self._response is not None:
            deliver(self._response)

    def hurry(self) -> None:
        """The same connection asked something else: resolve now if an early answer is a right one."""

    def abandon(self) -> None:
        """The connection is gone: nobody waits for the response any more."""


class Hangup(Exception):
    """The protocol has no answer for this request but to hang up (a Produce with acks=0, for one)."""


class ServedApi(NamedTuple):
    """An API that the broker answers, in which versions."""

    api_key: int
    min_version: int
    max_version: int


@dataclass(slots=True)
class ClientInfo:
    """Who is at the other end of a connection."""

    host: str
    port: int
    client_id: str | None = None
    """From the header of the request being answered."""
    software_name: str = ""
    """From ApiVersions v3+ (KIP-511); empty before it was sent."""
    software_version: str = ""


@dataclass(slots=True, kw_only=True)
class Context:
    """One per connection; `api_version` and `client.client_id` are those of the request being answered.

    Requests of one connection are handled one after the other, so both hold until the answer is there.
    """

    log: "Log"
    reader: "LogReader"
    coordinator: "Coordinator"
    metrics: "Metrics"
    parked: "ParkedFetches"
    apis: tuple[ServedApi, ...]
    """What ApiVersions lists."""
    settings: Mapping[str, str]
    """The broker's settings in force, by Kafka's names."""
    cluster_id: str
    advertised_host: str
    advertised_port: int
    client: ClientInfo = field(default_factory=lambda: ClientInfo("", 0))
    node_id: int = NODE_ID
    api_version: int = 0

    def for_client(self, host: str, port: int) -> "Context":
        """The context of a new connection from `host` and `port`."""
        return replace(self, client=ClientInfo(host, port))

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970 (what Kafka's timestamps and committed offsets carry)."""
        return time.time_ns() // 1_000_000
