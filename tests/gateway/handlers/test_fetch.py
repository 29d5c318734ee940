"""Fetch: how long it waits, how much it gives, and what it says of offsets and epochs that are not."""

import sqlite3
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from capture.log import CorruptLog
from gateway.context import Context
from gateway.handlers.fetch import handle
from gateway.topics.parked import ParkedFetch
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from protocol.records import batches
from tests.support.in_process import InProcessGateway, RawClient

TOPIC = "shop.public.orders"


@pytest.fixture
def service() -> Iterator[InProcessGateway]:
    with InProcessGateway() as service:
        yield service


def partition(index: int, offset: int, **fields: int) -> FetchPartition:
    return FetchPartition(
        **{"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **fields}
    )


def fetch(*partitions: FetchPartition, topic: str = TOPIC, **fields: Any) -> FetchRequest:
    topics = [FetchTopic(topic=topic, partitions=list(partitions))]
    return FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 30, "topics": topics, **fields}
    )


def sizes(response: Any) -> list[int]:
    return [len(found.records) for topic in response.responses for found in topic.partitions]


def offsets(records: Any) -> list[int]:
    return [header.base_offset for _, header in batches(memoryview(bytes(records)))]


def asker(service: InProcessGateway, version: int) -> Context:
    context = service.gateway._context().for_client("test", 0)
    context.api_version = version
    return context


def elapsed(client: RawClient, request: FetchRequest, version: int = 12) -> tuple[float, Any]:
    started = time.monotonic()
    response = client.ask(request, version)
    return time.monotonic() - started, response


def test_records_are_whole_batches_from_the_one_that_holds_the_offset(service: InProcessGateway) -> None:
    [log] = service.topic(TOPIC)
    for start in range(0, 30, 10):
        service.append(log, [str(number).encode() for number in range(start, start + 10)])
    with service.client() as client:
        for offset, found in ((0, [0, 10, 20]), (5, [0, 10, 20]), (10, [10, 20]), (29, [20])):
            data = client.ask(fetch(partition(0, offset)), 12).responses[0].partitions[0]
            assert offsets(data.records) == found
            assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (30, 30, 0)
        one_batch = len(client.ask(fetch(partition(0, 20)), 12).responses[0].partitions[0].records)
        limited = client.ask(fetch(partition(0, 0, partition_max_bytes=2 * one_batch + 10)), 12)
        assert offsets(limited.responses[0].partitions[0].records) == [0, 10]


def test_at_the_end_it_waits_as_long_as_it_was_told(service: InProcessGateway) -> None:
    service.topic(TOPIC)
    with service.client() as client:
        waited, response = elapsed(client, fetch(partition(0, 0), max_wait_ms=150))
        assert 0.14 < waited < 5
        assert sizes(response) == [0]
        assert response.responses[0].partitions[0].error_code == 0
        waited, _ = elapsed(client, fetch(partition(0, 0), max_wait_ms=0))
        assert waited < 0.14
        waited, _ = elapsed(client, fetch(partition(0, 0), max_wait_ms=-1))
        assert waited < 0.14
        waited, _ = elapsed(client, fetch(partition(0, 0), max_wait_ms=10_000, min_bytes=0))
        assert waited < 5


def test_a_commit_answers_it(service: InProcessGateway) -> None:
    [log] = service.topic(TOPIC)
    with service.client() as client:
        client.send(fetch(partition(0, 0), max_wait_ms=15_000), 12)
        service.until(lambda: len(service.gateway.parked) == 1)
        started = time.monotonic()
        service.append(log, [b"value"])
        response = client.receive()
        assert time.monotonic() - started < 5
        data = response.responses[0].partitions[0]
        assert (offsets(data.records), data.high_watermark) == ([0], 1)


def test_only_enough_bytes_answer_it(service: InProcessGateway) -> None:
    first, second, other = service.topic(TOPIC, partitions=3)
    request = fetch(partition(0, 0), partition(1, 0), max_wait_ms=15_000, min_bytes=2_000)
    with service.client() as client:
        client.send(request, 12)
        service.until(lambda: len(service.gateway.parked) == 1)
        service.append(other, [b"x" * 5_000])
        service.append(first, [b"x" * 1_000])
        assert service.call(lambda: len(service.gateway.parked)) == 1
        service.append(second, [b"x" * 1_000])
        assert [size > 1_000 for size in sizes(client.receive())] == [True, True]


def test_the_same_question_of_many_gets_the_same_answer(service: InProcessGateway) -> None:
    [log] = service.topic(TOPIC)
    clients = [service.client() for _ in range(20)]
    for number, client in enumerate(clients):
        version = 11 if number % 2 else 12
        client.send(fetch(partition(0, 0), max_wait_ms=15_000, isolation_level=number % 3 and 1), version)
    service.until(lambda: len(service.gateway.parked) == 20)
    service.append(log, [b"x" * 2_000])
    for number, client in enumerate(clients):
        data = client.receive().responses[0].partitions[0]
        assert offsets(data.records) == [0]
        assert data.aborted_transactions == ([] if number % 3 else None)
        client.socket.close()
    assert service.gateway.metrics.fetch_bytes > 0


def test_max_bytes_is_shared_by_the_partitions(service: InProcessGateway) -> None:
    logs = service.topic(TOPIC, partitions=3)
    for log in logs:
        service.append(log, [b"x" * 1_000])
        service.append(log, [b"x" * 1_000])
    with service.client() as client:
        asked = [partition(index, 0) for index in range(3)]
        one = sizes(client.ask(fetch(asked[0]), 12))[0] // 2
        assert sizes(client.ask(fetch(*asked, max_bytes=5 * one), 12)) == [2 * one, 2 * one, one]
        assert sizes(client.ask(fetch(*asked, max_bytes=3 * one), 12)) == [2 * one, one, 0]
        assert sizes(client.ask(fetch(*asked, max_bytes=0), 12)) == [one, 0, 0]


def test_several_topics_in_one_request(service: InProcessGateway) -> None:
    [one], [two] = service.topic("one"), service.topic("two")
    service.append(one, [b"1"])
    service.append(two, [b"22"])
    for version in (4, 11, 12, 13, 18):
        request = fetch(partition(0, 0), topic="one")
        request.topics.append(FetchTopic(topic="two", partitions=[partition(0, 0)]))
        for topic, log in zip(request.topics, (one, two), strict=True):
            topic.topic_id = log.topic_id
        with service.client() as client:
            found = client.ask(request, version).responses
            assert [len(topic.partitions[0].records) > 60 for topic in found] == [True, True]


@pytest.mark.parametrize("version", [4, 8, 11, 12])
def test_offsets_out_of_range(service: InProcessGateway, version: int) -> None:
    [log] = service.topic(TOPIC)
    service.append(log, [b"one", b"two"])
    with service.client() as client:
        for offset in (3, -1, 1 << 60):
            waited, response = elapsed(client, fetch(partition(0, offset), max_wait_ms=10_000), version)
            data = response.responses[0].partitions[0]
            assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert (data.high_watermark, data.log_start_offset, len(data.records)) == (-1, -1, 0)
            assert waited < 5, "an error is answered at once"


def test_unknown_topics_and_partitions_are_errors_of_their_own(service: InProcessGateway) -> None:
    [log] = service.topic(TOPIC)
    service.append(log, [b"one"])
    with service.client() as client:
        request = fetch(partition(0, 0), partition(7, 0), partition(-1, 0), max_wait_ms=10_000)
        request.topics.append(FetchTopic(topic="nobody", partitions=[partition(0, 0)]))
        found = client.ask(request, 11).responses
        codes = [data.error_code for topic in found for data in topic.partitions]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [0, unknown, unknown, unknown]
        assert len(found[0].partitions[0].records) > 60
        by_id = FetchRequest(
            max_wait_ms=10_000,
            min_bytes=1,
            topics=[FetchTopic(topic_id=uuid.uuid4(), partitions=[partition(0, 0), partition(1, 0)])],
        )
        found = client.ask(by_id, 13).responses
        assert [data.error_code for data in found[0].partitions] == [ErrorCode.UNKNOWN_TOPIC_ID] * 2


def test_leader_epochs(service: InProcessGateway) -> None:
    [log] = service.topic(TOPIC)
    service.append(log, [b"one"])
    with service.client() as client:
        for epoch, code in ((-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)):
            found = client.ask(fetch(partition(0, 0, current_leader_epoch=epoch)), 12)
            assert found.responses[0].partitions[0].error_code == code


def test_a_reader_of_what_is_not_there_is_told_where_the_log_ends(service: InProcessGateway) -> None:
    [log] = service.topic(TOPIC)
    service.append(log, [b"one", b"two"])
    with service.client() as client:
        waited, found = elapsed(client, fetch(partition(0, 5, last_fetched_epoch=0), max_wait_ms=10_000))
        data = found.responses[0].partitions[0]
        assert data.error_code == 0
        assert data.diverging_epoch is not None
        assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 2)
        assert (len(data.records), waited < 5) == (0, True)
        found = client.ask(fetch(partition(0, 0, last_fetched_epoch=0)), 12)
        assert offsets(found.responses[0].partitions[0].records) == [0]
        found = client.ask(fetch(partition(0, 0, last_fetched_epoch=9)), 12)
        assert found.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        found = client.ask(fetch(partition(0, -1, last_fetched_epoch=0)), 12)
        assert found.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_no_session_is_ever_opened(service: InProcessGateway) -> None:
    [log] = service.topic(TOPIC)
    service.append(log, [b"one"])
    with service.client() as client:
        opened = client.ask(fetch(partition(0, 0), session_epoch=0), 12)
        assert (opened.session_id, opened.error_code, sizes(opened)[0] > 60) == (0, 0, True)
        for session_id, epoch in ((7, 1), (7, -1), (7, 0), (0, 3)):
            waited, refused = elapsed(
                client, fetch(partition(0, 1), session_id=session_id, session_epoch=epoch, max_wait_ms=10_000)
            )
            assert refused.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            assert waited < 5


def test_the_closing_of_a_session_is_answered_at_once(service: InProcessGateway) -> None:
    """Java and franz-go close even the session that they were refused: a Fetch of nothing with epoch -1."""
    service.topic(TOPIC)
    close = FetchRequest(
        max_wait_ms=30_000,
        min_bytes=1,
        max_bytes=1,
        session_epoch=-1,
        topics=[],
        forgotten_topics_data=[ForgottenTopic(topic=TOPIC, partitions=[0])],
    )
    with service.client() as client:
        waited, response = elapsed(client, close)
        assert (response.error_code, response.responses) == (0, [])
        assert waited < 5


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_small_and_large_records(service: InProcessGateway, version: int) -> None:
    [log] = service.topic(TOPIC)
    for size in (10, 5_000, 400_000):
        service.append(log, [b"x" * size])
    topic = FetchTopic(topic=TOPIC, topic_id=log.topic_id, partitions=[partition(0, 0)])
    with service.client() as client:
        for _ in range(3):
            data = client.ask(fetch(topics=[topic]), version).responses[0].partitions[0]
            assert offsets(data.records) == [0, 1, 2]


def test_a_damaged_partition_is_an_error_of_its_own(
    service: InProcessGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, sound = service.topic(TOPIC, partitions=2)
    service.append(sound, [b"one"])
    service.append(broken, [b"one"])
    reader = service.gateway.reader.partition(broken.partition_id)
    original = type(reader).read_to_send

    def read(self: Any, offset: int, max_bytes: int) -> Any:
        if self is reader:
            raise CorruptLog(broken.folder / "00000000000000000000.log", 17, "impossible batch length")
        return original(self, offset, max_bytes)

    monkeypatch.setattr(type(reader), "read_to_send", read)
    with service.client() as client:
        for _ in range(3):
            found = client.ask(fetch(partition(0, 0), partition(1, 0)), 12).responses[0].partitions
            assert [data.error_code for data in found] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
            assert len(found[1].records) > 60
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "a partition cannot be read"
    ], "the operator is told once"


@pytest.mark.parametrize("failure", [OSError(24, "Too many open files"), sqlite3.OperationalError("locked")])
def test_what_the_system_refuses_is_an_error_of_the_partition_also_of_a_fetch_that_waits(
    service: InProcessGateway,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failure: Exception,
) -> None:
    broken, sound = service.topic(TOPIC, partitions=2)
    reader = service.gateway.reader.partition(broken.partition_id)
    original = type(reader).read_to_send
    failing = False

    def read(self: Any, offset: int, max_bytes: int) -> Any:
        if failing and self is reader:
            raise failure
        return original(self, offset, max_bytes)

    monkeypatch.setattr(type(reader), "read_to_send", read)
    with service.client() as woken, service.client() as hurried, service.client() as bystander:
        for client in (woken, hurried):
            client.send(fetch(partition(0, 0), max_wait_ms=15_000), 12)
        bystander.send(fetch(partition(1, 0), max_wait_ms=15_000), 12)
        service.until(lambda: len(service.gateway.parked) == 3)
        failing = True
        service.append(broken, [b"one"])
        service.append(sound, [b"one"])
        assert offsets(bystander.receive().responses[0].partitions[0].records) == [0]
        for client in (woken, hurried):
            assert client.receive().responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        failing = False
        assert sizes(woken.ask(fetch(partition(0, 0)), 12)) != [0]


def test_a_partition_listed_again_is_refused_there(service: InProcessGateway) -> None:
    first, _ = service.topic(TOPIC, partitions=2)
    service.append(first, [b"one"])
    request = fetch(partition(0, 0), partition(1, 0), partition(0, 0), max_wait_ms=15_000, min_bytes=10_000)
    request.topics.append(FetchTopic(topic=TOPIC, partitions=[partition(1, 0)]))
    with service.client() as client:
        waited, response = elapsed(client, request)
        codes = [[found.error_code for found in topic.partitions] for topic in response.responses]
        assert codes == [[0, 0, ErrorCode.INVALID_REQUEST], [ErrorCode.INVALID_REQUEST]]
        assert [size > 0 for size in sizes(response)] == [True, False, False, False]
        assert waited < 5
        assert len(service.gateway.parked) == 0


def test_a_request_that_waits_holds_nothing_without_bound(
    service: InProcessGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.topic(TOPIC)
    request = fetch(partition(0, 0), max_wait_ms=2**31 - 1)
    request.topics += [FetchTopic(topic="empty", partitions=[]) for _ in range(1_000)]
    request.forgotten_topics_data = [ForgottenTopic(topic="gone", partitions=[0]) for _ in range(1_000)]
    waits: list[float] = []
    parked = service.gateway.parked
    call_later = parked._call_later

    def note(delay_s: float, callback: Any) -> Any:
        waits.append(delay_s)
        return call_later(delay_s, callback)

    monkeypatch.setattr(parked, "_call_later", note)
    waiting = service.call(lambda: handle(request, asker(service, 12)))
    assert isinstance(waiting, ParkedFetch)
    assert waits == [300]
    assert (len(request.topics), request.forgotten_topics_data) == (1, [])
    service.call(waiting.abandon)


@pytest.mark.parametrize("version", [12, 13])
def test_unknown_topics_cost_one_look_at_the_catalog(
    service: InProcessGateway, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    service.topic(TOPIC)
    reader = service.gateway.reader
    original = type(reader).catch_up
    looks = 0

    def catch_up(self: Any) -> None:
        nonlocal looks
        looks += 1
        original(self)

    monkeypatch.setattr(type(reader), "catch_up", catch_up)
    request = fetch()
    request.topics = [
        FetchTopic(
            topic=f"nowhere-{number}",
            topic_id=uuid.uuid4(),
            partitions=[partition(index, 0) for index in range(50)],
        )
        for number in range(50)
    ]

    def ask() -> Any:
        before = looks
        response = handle(request, asker(service, version))
        return response, looks - before

    response, looked = service.call(ask)
    assert looked == 1
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version > 12 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    codes = [found.error_code for topic in response.responses for found in topic.partitions]
    assert codes == [unknown] * 2_500
