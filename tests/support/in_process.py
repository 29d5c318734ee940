"""A real gateway in the test's process: an event loop in a thread, an ephemeral port, a temporary log."""

import asyncio
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

from capture.log import Log, PartitionWriter, Writer
from gateway.broker.limits import BrokerLimits
from gateway.config import Address, Config, GatewayConfig, LogConfig
from gateway.server import Gateway
from protocol.header import decode_response, request_frame
from protocol.records import Record, build

CAPTURE = "test"
ANY_PORT = Address("127.0.0.1", 0)
_TIMEOUT_S = 20

Result = TypeVar("Result")


class InProcessGateway:
    """A gateway and the writer of one capture, over a data directory of its own unless one is given."""

    def __init__(
        self, data: Path | None = None, *, limits: BrokerLimits | None = None, http: bool = False
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tidegate-test-") if data is None else None
        self.data = Path(self._folder.name) if self._folder is not None else data or Path()
        self.log = Log.open(self.data, create=True)
        self._writer: Writer | None = None
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gateway")
        self.gateway = Gateway(
            Config(
                log=LogConfig(data=self.data),
                gateway=GatewayConfig(kafka=ANY_PORT, registry=ANY_PORT, admin=ANY_PORT),
            ),
            limits=limits,
        )
        self._http = http

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self.gateway.start(http=self._http))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self.gateway.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_TIMEOUT_S)
        self._loop.close()
        if self._writer is not None:
            self._writer.close()
        self.log.close()
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def address(self) -> tuple[str, int]:
        """Where Kafka is answered."""
        return self.gateway.kafka.host, self.gateway.kafka.port

    @property
    def bootstrap(self) -> str:
        """The same as clients want it."""
        return str(self.gateway.kafka)

    @property
    def writer(self) -> Writer:
        """The writer of the capture, opened at first use."""
        if self._writer is None:
            self._writer = Writer.open(self.log, CAPTURE)
        return self._writer

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine in the gateway's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_TIMEOUT_S)

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function in the gateway's loop and wait for what it gives."""
        future: Future[Result] = Future()

        def call() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        self._loop.call_soon_threadsafe(call)
        return future.result(_TIMEOUT_S)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds in the gateway; AssertionError if it does not come to hold."""
        deadline = time.monotonic() + _TIMEOUT_S
        while not self.call(condition):
            assert time.monotonic() < deadline, "the gateway did not come to the expected state"
            time.sleep(0.002)

    def topic(
        self, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> list[PartitionWriter]:
        """Create a topic that the gateway knows of; its partitions."""
        topic = self.log.catalog.create_topic(name, capture=CAPTURE, partitions=partitions, config=config)
        self.call(self.gateway.reader.catch_up)
        return [self.writer.partition(topic, index) for index in range(partitions)]

    def append(
        self, partition: PartitionWriter, values: Sequence[bytes], *, timestamp_ms: int = 1_000
    ) -> int:
        """Commit the values as one batch, keys "0", "1", …; timestamps count up from the given one."""
        batch = build(
            [
                Record(index, timestamp_ms + index, str(index).encode(), value, ())
                for index, value in enumerate(values)
            ]
        )
        end = self.writer.append(partition, [batch])
        self.writer.commit(None, {partition: end})
        self.call(self.gateway.reader.catch_up)
        return end

    def client(self) -> "RawClient":
        """A new connection."""
        return RawClient(self.address)


class RawClient:
    """A connection that sends frames, whole or not, and reads responses."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=_TIMEOUT_S)
        self._correlation_id = 0
        self._asked: dict[int, tuple[type, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def frame(self, request: Any, version: int) -> bytes:
        """The bytes of a request; its response is then expected by `receive`."""
        self._correlation_id += 1
        name = type(request).__name__
        response = getattr(_module(type(request)), name.removesuffix("Request") + "Response")
        self._asked[self._correlation_id] = (response, version)
        return b"".join(request_frame(request, version, self._correlation_id, "raw"))

    def send(self, request: Any, version: int) -> int:
        """Send a request; its correlation id."""
        self.socket.sendall(self.frame(request, version))
        return self._correlation_id

    def receive(self) -> Any:
        """The next response, whichever it answers; see `last_correlation_id`."""
        data = self.receive_frame()
        (correlation_id,) = struct.unpack_from(">i", data)
        response, version = self._asked.pop(correlation_id)
        self.last_correlation_id, decoded = decode_response(response, version, data)
        return decoded

    def receive_frame(self) -> bytes:
        """The next frame without its size. ConnectionError at the end of the stream."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, request: Any, version: int) -> Any:
        """Send a request and read its response."""
        correlation_id = self.send(request, version)
        response = self.receive()
        assert self.last_correlation_id == correlation_id
        return response

    def is_closed(self) -> bool:
        """Whether the peer ends the connection; what it still sends is dropped."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
        return True

    def _exactly(self, size: int) -> bytes:
        pieces = bytearray()
        while len(pieces) < size:
            piece = self.socket.recv(min(size - len(pieces), 1 << 20))
            if not piece:
                raise ConnectionError("the gateway closed the connection")
            pieces += piece
        return bytes(pieces)


def _module(cls: type) -> Any:
    import sys

    return sys.modules[cls.__module__]
