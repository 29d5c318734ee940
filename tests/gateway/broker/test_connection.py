"""One connection against clients that break the rules, read nothing or say nothing; handlers with bugs."""

import logging
import socket
import struct
import time
import uuid
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from gateway.broker import apis
from gateway.broker.limits import BrokerLimits
from gateway.context import Context, Later
from gateway.handlers import metadata
from protocol import message
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.in_process import InProcessGateway

TOPIC = "shop.public.orders"


@pytest.fixture
def service() -> Iterator[InProcessGateway]:
    with InProcessGateway(limits=BrokerLimits(max_frame_bytes=100_000)) as service:
        yield service


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def fetch(offset: int, *, wait_ms: int = 0, partition_max_bytes: int = 1 << 20) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 30,
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
    )


BAD_BYTES = {
    "a frame larger than allowed": struct.pack(">i", 100_001),
    "a negative size": struct.pack(">i", -5),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
    "garbage": b"\x00\x00\x00\x20" + b"\xff" * 32,
    "a header cut off": framed(b"\0\3\0\1\0\0"),
    "an empty frame": framed(b""),
    "a client id past the end": framed(struct.pack(">hhih", 3, 1, 1, 500) + b"short"),
    "a body cut off": framed(struct.pack(">hhih", 3, 1, 1, -1) + b"\0\0"),
    "an array past the end": framed(struct.pack(">hhihi", 3, 1, 1, -1, 2_000_000_000)),
    "a string that is not UTF-8": framed(struct.pack(">hhihih", 3, 1, 1, -1, 1, 2) + b"\xff\xfe"),
    "an API that Kafka does not have": framed(struct.pack(">hhih", 999, 0, 1, -1)),
    "an API that is not served": framed(struct.pack(">hhih", 19, 7, 1, -1)),
    "a version that is not served": framed(struct.pack(">hhih", 1, 99, 1, -1)),
    "a version that was dropped": framed(struct.pack(">hhih", 1, 3, 1, -1)),
}


@pytest.mark.parametrize("data", BAD_BYTES.values(), ids=BAD_BYTES.keys())
def test_bad_bytes_end_one_connection_with_one_line_and_one_count(
    service: InProcessGateway, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    service.topic(TOPIC)
    with service.client() as bystander, service.client() as client, caplog.at_level(logging.INFO):
        bystander.ask(MetadataRequest(topics=None), 9)
        client.socket.sendall(data)
        assert client.is_closed()
        assert len(bystander.ask(MetadataRequest(topics=None), 9).topics) == 1
    closed = [record for record in caplog.records if record.message == "connection closed"]
    assert [record.levelname for record in closed] == ["INFO"]
    assert closed[0].__dict__["reason"]
    assert service.gateway.metrics.decode_errors == 1


def test_what_was_asked_before_the_bad_bytes_is_answered(service: InProcessGateway) -> None:
    service.topic(TOPIC)
    with service.client() as client:
        client.socket.sendall(client.frame(MetadataRequest(topics=None), 9) + struct.pack(">i", -1))
        assert len(client.receive().topics) == 1
        assert client.is_closed()


def test_a_frame_may_come_in_any_pieces(service: InProcessGateway) -> None:
    service.topic(TOPIC)
    with service.client() as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in client.frame(MetadataRequest(topics=None), 9):
            client.socket.sendall(bytes((byte,)))
        assert len(client.receive().topics) == 1
        frames = b"".join(client.frame(MetadataRequest(topics=None), 9) for _ in range(300))
        client.socket.sendall(frames[:1000])
        client.socket.sendall(frames[1000:])
        for number in range(300):
            client.receive()
            assert client.last_correlation_id == number + 2


def test_a_truncated_frame_leaves_nothing_behind(service: InProcessGateway) -> None:
    with service.client() as client:
        client.socket.sendall(client.frame(MetadataRequest(topics=None), 9)[:-3])
        service.until(lambda: service.gateway.metrics.connections == 1)
    service.until(lambda: service.gateway.metrics.connections == 0)
    assert service.gateway.metrics.decode_errors == 0


def test_the_client_id_may_change_from_request_to_request(service: InProcessGateway) -> None:
    seen = []

    def handle(request: MetadataRequest, context: Context) -> Any:
        seen.append(context.client.client_id)
        return metadata.handle(request, context)

    replace_handler(service, MetadataRequest, handle)
    with service.client() as client:
        for client_id in ("one", "another", None, "", "another"):
            name = b"" if client_id is None else client_id.encode()
            header = struct.pack(">hhih", 3, 1, 7, -1 if client_id is None else len(name)) + name
            client.socket.sendall(framed(header + struct.pack(">i", 0)))
            client.receive_frame()
    assert seen == ["one", "another", None, "", "another"]


def test_header_kinds_may_mix_on_a_connection(service: InProcessGateway) -> None:
    """ApiVersions 3 has tagged fields in its header, and Metadata 4, the next one of kcat, has none."""
    service.topic(TOPIC)
    with service.client() as client:
        for version in (4, 9, 0, 12, 1):
            software = ApiVersionsRequest(client_software_name="kcat", client_software_version="1.7")
            assert client.ask(software, 3).error_code == 0
            assert [
                topic.name
                for topic in client.ask(MetadataRequest(topics=None if version else []), version).topics
            ] == [TOPIC]


# --- handlers that fail
# ---------------------------------------------------------------------------------------


def replace_handler(service: InProcessGateway, request: type, handle: Any) -> None:
    """Serve an API by another handler; this gateway's tables are its own."""
    dispatcher = service.gateway._listener._dispatcher
    dispatcher.routes.clear()
    dispatcher._apis[message.api_key(request)] = apis.Api(request, handle)


async def awaited_bug(request: Any, context: Context) -> Any:
    raise ZeroDivisionError("row values must not be here")


def plain_bug(request: Any, context: Context) -> Any:
    raise ZeroDivisionError("row values must not be here")


def unencodable(request: Any, context: Context) -> Any:
    response = metadata.handle(request, context)
    response.controller_id = "no number"  # type: ignore[assignment]  # the bug under test
    return response


def late_and_unencodable(request: Any, context: Context) -> Any:
    later: Later[Any] = Later()
    later.resolve(unencodable(request, context))
    return later


@pytest.mark.parametrize("handle", [plain_bug, awaited_bug, unencodable, late_and_unencodable])
def test_a_bug_in_a_handler_answers_unknown_server_error_and_others_go_on(
    service: InProcessGateway, handle: Any, caplog: pytest.LogCaptureFixture
) -> None:
    service.topic(TOPIC)
    replace_handler(service, MetadataRequest, handle)
    with service.client() as client:
        asked = [MetadataRequestTopic(name=TOPIC)]
        for _ in range(2):
            topics = client.ask(MetadataRequest(topics=asked), 9).topics
            assert [topic.error_code for topic in topics] == [ErrorCode.UNKNOWN_SERVER_ERROR]
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.message for record in errors] == ["request failed"] * 2
    assert all(record.exc_info for record in errors)
    assert service.gateway.metrics.api("Metadata").errors == {"UNKNOWN_SERVER_ERROR": 2}


def test_what_a_handler_refuses_as_a_whole_is_answered_everywhere(service: InProcessGateway) -> None:
    def handle(request: Any, context: Context) -> Any:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    replace_handler(service, MetadataRequest, handle)
    with service.client() as client:
        topics = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9).topics
        assert [topic.error_code for topic in topics] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_a_handler_may_take_its_time_and_order_is_kept(service: InProcessGateway) -> None:
    laters: list[Later[Any]] = []

    def handle(request: Any, context: Context) -> Any:
        later: Later[Any] = Later()
        laters.append(later)
        return later

    service.topic(TOPIC)
    replace_handler(service, MetadataRequest, handle)
    with service.client() as client:
        client.send(MetadataRequest(topics=None), 9)
        client.send(ApiVersionsRequest(), 0)
        client.send(MetadataRequest(topics=None), 9)
        service.until(lambda: len(laters) == 1)
        for number in range(2):
            service.until(lambda number=number: len(laters) == number + 1)  # type: ignore[misc]  # a default binds it
            service.call(
                lambda number=number: laters[number].resolve(  # type: ignore[misc]  # as above
                    metadata.handle(MetadataRequest(topics=None), service.gateway._context())
                )
            )
        for number in (1, 2, 3):
            client.receive()
            assert client.last_correlation_id == number


def test_a_task_ends_with_its_connection(service: InProcessGateway) -> None:
    import asyncio

    ended = []

    async def handle(request: Any, context: Context) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    replace_handler(service, MetadataRequest, handle)
    with service.client() as client:
        client.send(MetadataRequest(topics=None), 9)
        service.until(lambda: service.gateway.metrics.connections == 1)
        client.send(MetadataRequest(topics=None), 9)
    # A connection that waits for an answer reads no further, so its end is seen when it is written to or
    # idle.
    service.run(service.gateway._listener.close())
    service.until(lambda: ended == [True])


# --- clients that do not read, or say nothing
# ---------------------------------------------------------------------


def test_a_client_that_never_reads_costs_no_memory(service: InProcessGateway) -> None:
    [partition] = service.topic(TOPIC)
    for _ in range(40):
        service.append(partition, [b"x" * 1_000_000])
    process = psutil.Process()
    with service.client() as greedy, service.client() as other:
        greedy.socket.setblocking(False)
        before = process.memory_info().rss
        request = greedy.frame(fetch(0, partition_max_bytes=50_000_000), 11)
        sent = 0
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            try:
                sent += greedy.socket.send(request * 100)
            except BlockingIOError:
                if sent > 1_000_000:
                    break
        # The gateway stopped to read, so the rest stays in the socket buffers; no answer lies in our memory.
        assert process.memory_info().rss - before < 60_000_000
        assert service.gateway.metrics.sent_bytes < 200_000_000
        assert other.ask(MetadataRequest(topics=None), 9).topics
    service.until(lambda: service.gateway.metrics.connections == 0)


@pytest.mark.parametrize("version", [11, 12])
def test_a_client_that_reads_slowly_gets_every_byte(service: InProcessGateway, version: int) -> None:
    [partition] = service.topic(TOPIC)
    large = [bytes((number,)) * 1_000_000 for number in range(12)]
    for value in large:
        service.append(partition, [value])
    with service.client() as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20_000)
        first = client.send(fetch(0, partition_max_bytes=50_000_000), version)
        second = client.send(MetadataRequest(topics=None), 9)
        third = client.send(fetch(6, partition_max_bytes=50_000_000), version)
        records = bytes(client.receive().responses[0].partitions[0].records)
        assert client.last_correlation_id == first
        positions = [records.index(value) for value in large]
        assert positions == sorted(positions)
        assert client.receive().topics[0].name == TOPIC
        assert client.last_correlation_id == second
        rest = bytes(client.receive().responses[0].partitions[0].records)
        assert client.last_correlation_id == third
        assert rest == records[records.index(large[5]) + 1_000_000 + 1 :][-len(rest) :]


def test_a_client_that_goes_in_the_middle_of_a_large_answer_harms_nobody(service: InProcessGateway) -> None:
    [partition] = service.topic(TOPIC)
    for _ in range(20):
        service.append(partition, [b"x" * 1_000_000])
    for _ in range(5):
        with service.client() as client:
            client.send(fetch(0, partition_max_bytes=50_000_000), 12)
            client.socket.recv(1000)
    service.until(lambda: service.gateway.metrics.connections == 0)
    with service.client() as client:
        assert (
            len(client.ask(fetch(0, partition_max_bytes=50_000_000), 12).responses[0].partitions[0].records)
            > 20_000_000
        )


def test_idle_connections_are_closed_and_waiting_ones_are_not() -> None:
    with InProcessGateway(limits=BrokerLimits(max_idle_ms=200)) as service:
        service.topic(TOPIC)
        with service.client() as idle, service.client() as half, service.client() as waiting:
            half.socket.sendall(b"\0\0")
            started = time.monotonic()
            waiting.send(fetch(0, wait_ms=1_000), 11)
            assert idle.is_closed()
            assert half.is_closed()
            assert time.monotonic() - started < 0.9
            assert waiting.receive().error_code == 0


def test_a_slow_reader_is_not_idle() -> None:
    """It takes several times the idle time to read its answer, and sends nothing meanwhile."""
    with InProcessGateway(limits=BrokerLimits(max_idle_ms=400)) as service:
        [partition] = service.topic(TOPIC)
        for _ in range(24):
            service.append(partition, [b"x" * 1_000_000])
        with socket.socket() as slow, service.client() as client, service.client() as stuck:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
            slow.connect(service.address)
            request = fetch(0, partition_max_bytes=50_000_000)
            slow.sendall(client.frame(request, 12))
            stuck.send(request, 12)
            started = time.monotonic()
            missing = 4
            size = b""
            while missing > 0:
                piece = slow.recv(min(missing, 1_000_000), socket.MSG_WAITALL)
                assert piece, "the connection was closed"
                missing -= len(piece)
                if not size:
                    size = piece
                    missing = int.from_bytes(size, "big")
                time.sleep(0.05)
            assert time.monotonic() - started > 1.2
            with pytest.raises(ConnectionError):
                # Whoever reads nothing at all is still cut off in the middle.
                stuck.receive()


@pytest.mark.parametrize("wait_ms", [0, 60_000])
def test_any_number_of_requests_may_be_under_way_at_once(
    service: InProcessGateway, wait_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Each waits for records, and is hurried by the one behind it."""
    service.topic(TOPIC)
    with service.client() as client:
        frames = [client.frame(fetch(0, wait_ms=wait_ms), 12) for _ in range(2_000)]
        last = client.frame(MetadataRequest(topics=None), 9)
        client.socket.sendall(b"".join(frames) + last)
        for number in range(2_000):
            assert client.receive().responses[0].partitions[0].error_code == 0
            assert client.last_correlation_id == number + 1
        assert client.receive().topics[0].name == TOPIC
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_only_a_produce_may_be_very_large(caplog: pytest.LogCaptureFixture) -> None:
    with InProcessGateway() as service, service.client() as client, caplog.at_level(logging.INFO):
        service.topic(TOPIC)
        data = PartitionProduceData(index=0, records=bytes(8_000_000))
        produce = ProduceRequest(
            acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
        )
        assert client.ask(produce, 9).responses[0].partition_responses[0].error_code
        names = [MetadataRequestTopic(name=f"{number:0249}") for number in range(10_000)]
        client.socket.sendall(client.frame(MetadataRequest(topics=names), 9))
        assert len(client.receive().topics) == 10_000
        client.socket.sendall(client.frame(MetadataRequest(topics=names * 2), 9))
        assert client.is_closed()
    [closed] = [record for record in caplog.records if record.message == "connection closed"]
    assert "at most 4194304 are accepted of its kind" in closed.__dict__["reason"]


def test_many_connections_come_and_go(service: InProcessGateway) -> None:
    service.topic(TOPIC)
    clients = [service.client() for _ in range(200)]
    for client in clients:
        client.send(fetch(0, wait_ms=20_000), 11)
    service.until(lambda: len(service.gateway.parked) == 200)
    [partition] = service.topic(TOPIC)
    service.append(partition, [b"wake up"])
    for client in clients:
        assert client.receive().responses[0].partitions[0].records
        client.socket.close()
    service.until(lambda: service.gateway.metrics.connections == 0)
    assert service.gateway.metrics.connections_opened == 200
    assert uuid.UUID(int=0) not in service.gateway.reader.topics_by_id
