"""The short cut gives the same bytes as the usual way, and steps aside from what is out of the ordinary."""

import random
import struct
from collections.abc import Iterator

import pytest

from gateway.broker.apis import APIS
from gateway.broker.dispatch import Dispatcher, Route
from gateway.broker.repeated_fetch import RepeatedFetch
from gateway.broker.sending import Part
from gateway.handlers import fetch as handler
from gateway.observe import Metrics
from protocol import message
from protocol.header import decode_request_header, request_frame, response_frame
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.support.in_process import InProcessGateway

TOPIC = "shop.public.orders"
VERSIONS = range(4, 19)


@pytest.fixture(scope="module")
def service() -> Iterator[InProcessGateway]:
    with InProcessGateway() as service:
        [partition] = service.topic(TOPIC)
        for size in (10, 900, 100, 1_000, 1_100, 20_000, 300_000, 50):
            service.append(partition, [b"x" * size, b"y"])
        yield service


def request(service: InProcessGateway, offset: int, **changes: int) -> FetchRequest:
    partition = FetchPartition(
        partition=changes.pop("partition", 0),
        current_leader_epoch=0,
        fetch_offset=offset,
        partition_max_bytes=changes.pop("partition_max_bytes", 1),
    )
    topic = FetchTopic(
        topic=TOPIC, topic_id=service.gateway.reader.topics[TOPIC].topic_id, partitions=[partition]
    )
    return FetchRequest(
        **{"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, **changes}, topics=[topic], rack_id="r"
    )


def route(version: int) -> Route:
    found = Dispatcher(APIS, Metrics()).route(message.api_key(FetchRequest), version)
    assert found is not None
    return found


def frame(asked: FetchRequest, version: int, correlation_id: int, client_id: str = "client") -> bytes:
    return b"".join(request_frame(asked, version, correlation_id, client_id))


def in_memory(parts: list[Part]) -> bytes:
    return b"".join(getattr(part, "view", part) for part in parts)  # type: ignore[misc]  # a range shows its bytes


def usual(service: InProcessGateway, asked: FetchRequest, version: int, correlation_id: int) -> bytes:
    context = service.gateway._context()
    context.api_version = version
    response = handler.handle(asked, context)
    return in_memory(response_frame(correlation_id, response, version))


def learned(service: InProcessGateway, version: int, offset: int = 0, **changes: int) -> RepeatedFetch | None:
    asked = request(service, offset, **changes)
    data = frame(asked, version, 1)[4:]
    _, body = decode_request_header(data)
    decoded = message.decode(FetchRequest, version, data, body)
    context = service.gateway._context()
    context.api_version = version
    response = handler.handle(decoded, context)
    assert isinstance(response, FetchResponse)
    before = in_memory(response_frame(1, response, version))
    found = RepeatedFetch.after(route(version), data, body, decoded, response, service.gateway.reader)
    assert in_memory(response_frame(1, response, version)) == before, "learning must not change the response"
    return found


@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_answers_are_the_same_bytes(
    service: InProcessGateway, version: int, isolation_level: int
) -> None:
    for limit in (1, 1500, 1 << 20):
        repeated = learned(service, version, partition_max_bytes=limit, isolation_level=isolation_level)
        assert repeated is not None
        for offset in random.Random(version).sample(range(16), 10):
            asked = request(service, offset, partition_max_bytes=limit, isolation_level=isolation_level)
            parts = repeated.answer(frame(asked, version, offset + 7), 4, offset + 7)
            assert parts is not None
            assert in_memory(parts) == usual(service, asked, version, offset + 7)
            assert repeated.record_bytes > 0


@pytest.mark.parametrize("version", VERSIONS)
def test_it_steps_aside(service: InProcessGateway, version: int) -> None:
    repeated = learned(service, version)
    assert repeated is not None
    out_of_the_ordinary = {
        "at the end": request(service, 16),
        "past the end": request(service, 17),
        "before the begin": request(service, -1),
        "another partition": request(service, 0, partition=1),
        "another limit": request(service, 0, max_bytes=5),
        "another least": request(service, 0, min_bytes=2),
        "another isolation": request(service, 0, isolation_level=1),
    }
    for what, asked in out_of_the_ordinary.items():
        assert repeated.answer(frame(asked, version, 1), 4, 1) is None, what
    assert repeated.answer(frame(request(service, 0), version, 1, "another"), 4, 1) is None
    assert repeated.answer(frame(request(service, 0), version, 1, "clienT"), 4, 1) is None
    assert repeated.answer(frame(request(service, 0), version, 1) + b"\0", 4, 1) is None
    assert repeated.answer(frame(request(service, 0), version, 1), 4, 1) is not None


def test_a_least_size_is_kept(service: InProcessGateway) -> None:
    repeated = learned(service, 12, offset=12, min_bytes=1000, partition_max_bytes=1 << 20)
    assert repeated is not None
    asked = request(service, 14, min_bytes=1000, partition_max_bytes=1 << 20)
    assert repeated.answer(frame(asked, 12, 1), 4, 1) is None


def test_only_the_simple_kind_is_learned(service: InProcessGateway) -> None:
    two = request(service, 0)
    two.topics[0].partitions.append(two.topics[0].partitions[0])
    context = service.gateway._context()
    context.api_version = 12
    response = handler.handle(two, context)
    assert isinstance(response, FetchResponse)
    data = frame(two, 12, 1)[4:]
    _, body = decode_request_header(data)
    assert RepeatedFetch.after(route(12), data, body, two, response, service.gateway.reader) is None
    one = request(service, 0)
    response = handler.handle(one, context)
    assert isinstance(response, FetchResponse)
    trailing = frame(one, 12, 1)[4:] + b"\0\0"
    assert RepeatedFetch.after(route(12), trailing, body, one, response, service.gateway.reader) is None
    empty = handler.handle(request(service, 16, max_wait_ms=0), context)
    assert isinstance(empty, FetchResponse)
    assert RepeatedFetch.after(route(12), data, body, one, empty, service.gateway.reader) is None


def test_a_connection_reads_through_a_topic_by_it(service: InProcessGateway) -> None:
    context = service.gateway._context()
    context.api_version = 11
    with service.client() as client:
        for offset in (*range(16), *range(16)):
            client.send(request(service, offset), 11)
            data = client.receive_frame()
            [correlation_id] = struct.unpack_from(">i", data)
            response = handler.handle(request(service, offset), context)
            assert data == in_memory(response_frame(correlation_id, response, 11))[4:]
        sent_before = service.gateway.metrics.api("Fetch").requests[11]
        assert sent_before >= 32
