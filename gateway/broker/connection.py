"""One client's connection: frames in, requests one after the other, answers in the same order.

Invariants:
- At most one request is being answered (`_pending`); what comes meanwhile waits as frames in `_queue`. While
  anything waits there, nothing is read from the socket, so a client cannot make the queue grow.
- While the client does not read (`_writable` is false) no further request is begun, so at most one large
  answer is unsent, and its records are slices of mapped files, not memory of ours.
- `_plain` says that none of this is the case, and that the next bytes begin a frame: the usual one.
- One loop at a time takes from `_queue` (`_serving`), however soon the answers are there.
"""

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Coroutine, Sequence
from time import perf_counter
from types import CoroutineType
from typing import Any, Final, NamedTuple, Protocol, cast

from gateway.broker.dispatch import Dispatcher, Route
from gateway.broker.limits import BrokerLimits
from gateway.broker.refusals import refusal
from gateway.broker.repeated_fetch import CLIENT_ID_AT, RepeatedFetch
from gateway.broker.sending import Part, Sender, SendingCosts
from gateway.context import Context, Hangup, Later
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.frame import Frames
from protocol.header import API_VERSIONS_KEY, decode_request_header
from protocol.message import Buffer, api_key
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.produce import ProduceRequest

log = logging.getLogger(__name__)

_SIZE: Final = struct.Struct(">i").unpack_from
_START: Final = struct.Struct(">ii").unpack_from
_SHORTEST: Final = 10
"""Bytes of the shortest request header: the client id is null, which takes two."""
_FETCH_KEY: Final = api_key(FetchRequest)
_PRODUCE: Final = api_key(ProduceRequest).to_bytes(2, "big")
_MAX_LEARN_INTERVAL: Final = 1024
_HEAD: Final = struct.Struct(">ii").pack
_FLEXIBLE_HEAD: Final = struct.Struct(">iix").pack


class Pending(NamedTuple):
    """The request that is being answered."""

    route: Route
    correlation_id: int
    request: Any
    started: float
    answer: "Later[Any] | asyncio.Task[Any]"


class Home(Protocol):
    """Where connections live: the listener."""

    sending_costs: SendingCosts

    def opened(self, connection: "Connection") -> None:
        """A connection begins."""

    def closed(self, connection: "Connection") -> None:
        """A connection has ended."""


class Connection(asyncio.Protocol):
    """Made per accepted socket by the listener, to which it says when it begins and ends."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        context: Context,
        limits: BrokerLimits,
        home: "Home",
    ) -> None:
        self.idle_sweeps = 0
        """How often the listener has looked since bytes moved last."""
        self._dispatcher = dispatcher
        self._routes = dispatcher.routes
        self._service_context = context
        self._metrics = context.metrics
        self._limits = limits
        self._home = home
        self._frames = Frames(limits.max_frame_bytes)
        self._queue: deque[bytes] = deque()
        self._pending: Pending | None = None
        self._writable = True
        self._serving = False
        self._plain = True
        self._closing = False
        # The client id and tagged fields of the last request header as they came: they hardly ever change.
        self._header_tail = b""
        self._tail_is_flexible: bool | None = None
        self._repeated_fetch: RepeatedFetch | None = None
        self._learn_interval = 1
        self._fetches_to_learn = 1
        self._unsent_at_last_look = 0

    @property
    def waits_for_us(self) -> bool:
        """Whether a request is being answered, so that silence is not the client's."""
        return self._pending is not None and self._writable

    def has_moved_bytes(self) -> bool:
        """Whether an answer has gone on since the last call: a slow reader is not an idle one."""
        unsent = self._transport.get_write_buffer_size() + self._sender.unsent
        before, self._unsent_at_last_look = self._unsent_at_last_look, unsent
        return unsent != before

    # --- the transport's calls --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; the connection counts from now on."""
        # uvloop's transports are none of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes)
        self._sender = Sender(
            self._transport,
            self._home.sending_costs,
            paused=self.pause_writing,
            resumed=self.resume_writing,
            failed=self.abort,
        )
        host, port, *_ = transport.get_extra_info("peername") or ("unknown", 0)
        self._context = self._service_context.for_client(host, port)
        self._home.opened(self)
        self._metrics.connections += 1
        self._metrics.connections_opened += 1

    def connection_lost(self, error: Exception | None) -> None:
        """End: nobody waits for an answer any more."""
        self._closing = True
        self._plain = False
        self._home.closed(self)
        self._metrics.connections -= 1
        self._sender.close()
        self._queue.clear()
        pending, self._pending = self._pending, None
        if pending is None:
            return
        if isinstance(pending.answer, Later):
            pending.answer.abandon()
        else:
            pending.answer.cancel()

    def pause_writing(self) -> None:
        """The client reads slower than we answer: begin nothing new."""
        self._writable = self._plain = False

    def resume_writing(self) -> None:
        """The client has read."""
        self.idle_sweeps = 0
        self._writable = True
        if self._closing:
            self._transport.close()
        else:
            self._advance()

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        self.idle_sweeps = 0
        self._metrics.received_bytes += len(data)
        if self._plain and len(data) >= 4 + _SHORTEST and _SIZE(data)[0] == len(data) - 4:
            self._serve(data, 4)
        elif not self._closing:
            self._take(data)

    def close(self) -> None:
        """End the connection once what is unsent is gone."""
        self._closing = True
        self._plain = False
        self._queue.clear()
        if not self._sender.busy:
            self._transport.close()

    def abort(self) -> None:
        """End the connection now."""
        self._closing = True
        self._plain = False
        self._transport.abort()

    # --- from bytes to requests -------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        """The unusual cases of `data_received`: parts of frames, several frames, or a busy connection."""
        self._plain = False
        try:
            self._queue.extend(self._frames.feed(data))
        except DecodeError as error:
            self._serve_queue()
            self._hang_up(error)
            return
        self._hurry()
        self._advance()

    def _advance(self) -> None:
        """Serve what waits, as far as it can be; read on if nothing is left."""
        if self._serving:
            return
        self._serve_queue()
        if self._closing or self._transport.is_closing():
            return
        if self._queue:
            self._transport.pause_reading()
            return
        self._plain = self._pending is None and self._writable and not self._frames.held
        if not self._transport.is_reading():
            self._transport.resume_reading()

    def _serve_queue(self) -> None:
        self._serving = True
        try:
            while self._queue and self._pending is None and self._writable and not self._closing:
                frame = self._queue.popleft()
                self._check_size(frame)
                self._serve(frame, 0)
                if self._queue:
                    self._hurry()
        except DecodeError as error:
            self._hang_up(error)
        finally:
            self._serving = False

    def _check_size(self, frame: bytes) -> None:
        # What `data_received` serves itself is no larger than one read.
        size, most = len(frame), self._limits.max_request_bytes
        if size < _SHORTEST:
            raise DecodeError(f"the request header is cut off: {size} bytes")
        if size > most and not frame.startswith(_PRODUCE):
            raise DecodeError(f"a request has {size} bytes; at most {most} are accepted of its kind")

    def _hurry(self) -> None:
        """The client asked something else: what it waits for may be answered early."""
        if self._pending is not None and isinstance(self._pending.answer, Later):
            self._pending.answer.hurry()

    def _serve(self, data: bytes, offset: int) -> None:
        """Answer the one request whose frame (without its size) begins at `offset` and ends with `data`."""
        started = perf_counter()
        key_and_version, correlation_id = _START(data, offset)
        repeated = self._repeated_fetch
        if repeated is not None and key_and_version == _FETCH_KEY << 16 | repeated.route.version:
            buffers = repeated.answer(data, offset, correlation_id)
            if buffers is not None:
                self._send(buffers)
                self._metrics.fetch_bytes += repeated.record_bytes
                repeated.route.figures.answered(repeated.route.version, perf_counter() - started)
                return
        route = self._routes.get(key_and_version) or self._find_route(data, offset)
        if route is None:
            return
        try:
            tail = self._header_tail
            if self._tail_is_flexible is route.flexible_request and data.startswith(
                tail, offset + CLIENT_ID_AT
            ):
                body = offset + CLIENT_ID_AT + len(tail)
            else:
                body = self._read_header(data, offset, route)
            request = route.decode(data, body)
        except DecodeError as error:
            self._hang_up(error)
            return
        context = self._context
        context.api_version = route.version
        try:
            response = route.handle(request, context)
            if type(response) is CoroutineType or isinstance(response, Later):
                self._await(route, correlation_id, request, started, response)
            else:
                self._answer(route, correlation_id, response, route.encode(response), started)
                if type(response) is FetchResponse:
                    self._learn(route, data[offset:], body - offset, request, response)
        except Exception as error:  # noqa: BLE001 - one of the two outermost loops: a bug ends one request only
            self._fail(route, correlation_id, request, started, error)

    def _learn(
        self, route: Route, frame: bytes, body: int, request: FetchRequest, response: FetchResponse
    ) -> None:
        """Expect the next Fetch to be like this one; seldom, where such expectations were disappointed."""
        repeated = self._repeated_fetch
        if repeated is not None and repeated.answers:
            self._learn_interval = 1
        self._fetches_to_learn -= 1
        if self._fetches_to_learn > 0:
            return
        self._repeated_fetch = RepeatedFetch.after(
            route, frame, body, request, response, self._context.reader
        )
        self._learn_interval = self._fetches_to_learn = min(2 * self._learn_interval, _MAX_LEARN_INTERVAL)

    def _find_route(self, data: bytes, offset: int) -> Route | None:
        """A route on its first request; None once the connection was told that there is none."""
        try:
            header, _ = decode_request_header(data, offset)
        except DecodeError as error:
            self._hang_up(error)
            return None
        route = self._dispatcher.route(header.api_key, header.api_version)
        if route is None and header.api_key == API_VERSIONS_KEY:
            self._write(_HEAD, header.correlation_id, self._dispatcher.unsupported_api_versions())
        elif route is None:
            # As Kafka does: neither the request nor an error response can be read or written in such a
            # version.
            self._hang_up(DecodeError(f"API {header.api_key} in version {header.api_version} is not served"))
        return route

    def _read_header(self, data: bytes, offset: int, route: Route) -> int:
        """Remember the rest of a header that differs from the last one's; give the offset of the body."""
        header, body = decode_request_header(data, offset)
        self._header_tail = data[offset + CLIENT_ID_AT : body]
        self._tail_is_flexible = route.flexible_request
        self._context.client.client_id = header.client_id
        return body

    # --- from responses to bytes ------------------------------------------------------------------------

    def _answer(
        self, route: Route, correlation_id: int, response: Any, buffers: list[Buffer], started: float
    ) -> None:
        self._write(_FLEXIBLE_HEAD if route.flexible else _HEAD, correlation_id, buffers)
        route.figures.answered(route.version, perf_counter() - started)
        if route.has_error_code and response.error_code:
            route.figures.failed(ErrorCode(response.error_code).name)

    def _write(self, head: Any, correlation_id: int, buffers: list[Buffer]) -> None:
        """Send a response: a header of the kind that `head` packs, then the buffers, large ones uncopied."""
        first = buffers[0]
        overhead = 5 if head is _FLEXIBLE_HEAD else 4
        size = len(first) if len(buffers) == 1 else sum(map(len, buffers))
        buffers[0] = head(size + overhead, correlation_id) + first
        self._send(buffers)

    def _send(self, parts: Sequence[Part]) -> None:
        if len(parts) == 1 and type(parts[0]) is bytes:
            self._metrics.sent_bytes += len(parts[0])
            self._transport.write(parts[0])
        else:
            self._metrics.sent_bytes += sum(map(len, parts))
            self._sender.send(parts)

    def _await(
        self,
        route: Route,
        correlation_id: int,
        request: Any,
        started: float,
        response: "Later[Any] | Coroutine[Any, Any, Any]",
    ) -> None:
        """Keep the connection's turn until the response is there."""
        self._plain = False
        if isinstance(response, Later):
            self._pending = Pending(route, correlation_id, request, started, response)
            response.then(self._on_response)
            return
        task = asyncio.get_running_loop().create_task(response)
        self._pending = Pending(route, correlation_id, request, started, task)
        task.add_done_callback(self._on_task)

    def _on_task(self, task: "asyncio.Task[Any]") -> None:
        pending = self._pending
        if pending is None or pending.answer is not task or task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._on_response(task.result())
            return
        self._pending = None
        self._fail(pending.route, pending.correlation_id, pending.request, pending.started, error)
        self._advance()

    def _on_response(self, response: Any) -> None:
        pending, self._pending = self._pending, None
        if pending is None or self._closing or self._transport.is_closing():
            # A closed uvloop transport raises when written to.
            return
        if isinstance(response, KafkaError):
            self._fail(pending.route, pending.correlation_id, pending.request, pending.started, response)
            self._advance()
            return
        try:
            buffers = pending.route.encode_shared(response)
            self._answer(pending.route, pending.correlation_id, response, buffers, pending.started)
        except Exception as error:  # noqa: BLE001 - one of the two outermost loops: a bug ends one request only
            self._fail(pending.route, pending.correlation_id, pending.request, pending.started, error)
        self._advance()

    def _fail(
        self, route: Route, correlation_id: int, request: Any, started: float, error: BaseException
    ) -> None:
        """Turn what a handler raised into the answer that the protocol has for it."""
        if isinstance(error, Hangup):
            log.info("connection closed", extra={**self._who(), "api": route.name, "reason": str(error)})
            self.close()
            return
        if isinstance(error, KafkaError):
            code = error.code
        else:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            log.error(
                "request failed",
                extra={**self._who(), "api": route.name, "api_version": route.version},
                exc_info=error,
            )
        route.figures.failed(code.name)
        response = refusal(request, code)
        if response is None:
            self.close()
        elif not self._closing and not self._transport.is_closing():
            self._write(_FLEXIBLE_HEAD if route.flexible else _HEAD, correlation_id, route.encode(response))
            route.figures.answered(route.version, perf_counter() - started)

    def _hang_up(self, error: DecodeError) -> None:
        """The bytes are wrong: nothing after them can be understood."""
        if self._closing:
            return
        self._metrics.decode_errors += 1
        log.info("connection closed", extra={**self._who(), "reason": str(error)})
        self.close()

    def _who(self) -> dict[str, object]:
        client = self._context.client
        return {"client": f"{client.host}:{client.port}", "client_id": client.client_id}
