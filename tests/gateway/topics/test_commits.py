"""How commits reach parked fetches, whatever looks at the catalog first."""

import logging
import sqlite3
import time
from collections.abc import Iterator

import pytest

from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.records import Record, build
from tests.support.in_process import InProcessGateway

TOPIC = "shop.public.orders"


@pytest.fixture
def service() -> Iterator[InProcessGateway]:
    with InProcessGateway() as service:
        yield service


def fetch(offset: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
    return FetchRequest(max_wait_ms=15_000, min_bytes=1, topics=topics)


def test_a_look_up_in_between_does_not_swallow_the_commit(service: InProcessGateway) -> None:
    """A request for an unknown topic makes the reader catch up; the bell comes later, and still wakes."""
    [partition] = service.topic(TOPIC)
    with service.client() as waiting, service.client() as other:
        waiting.send(fetch(0), 11)
        service.until(lambda: len(service.gateway.parked) == 1)
        ring = service.writer._ringer.ring
        service.writer._ringer.ring = lambda: 0  # type: ignore[method-assign]  # the bell is late
        batch = build([Record(0, 1, None, b"value", ())])
        service.writer.commit(None, {partition: service.writer.append(partition, [batch])})
        other.ask(MetadataRequest(topics=[MetadataRequestTopic(name="nobody")]), 9)
        started = time.monotonic()
        ring()
        assert waiting.receive().responses[0].partitions[0].high_watermark == 1
        assert time.monotonic() - started < 5


def test_a_missed_bell_costs_a_second_at_most(service: InProcessGateway) -> None:
    [partition] = service.topic(TOPIC)
    with service.client() as waiting:
        waiting.send(fetch(0), 11)
        service.until(lambda: len(service.gateway.parked) == 1)
        service.writer._ringer.ring = lambda: 0  # type: ignore[method-assign]  # nobody hears it
        batch = build([Record(0, 1, None, b"value", ())])
        started = time.monotonic()
        service.writer.commit(None, {partition: service.writer.append(partition, [batch])})
        assert waiting.receive().responses[0].partitions[0].high_watermark == 1
        assert time.monotonic() - started < 8


def test_a_catalog_that_fails_is_told_once(
    service: InProcessGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> set[int]:
        raise sqlite3.OperationalError("disk I/O error")

    watch = service.gateway._watch
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(service.gateway.reader, "refresh", broken)
        for _ in range(3):
            service.call(watch._look)
    service.call(watch._look)
    events = [record.message for record in caplog.records]
    assert events == ["the catalog does not answer", "the catalog answers again"]


def test_a_topic_the_catalog_cannot_tell_of_is_not_called_unknown(
    service: InProcessGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    from protocol.errors import ErrorCode

    def broken() -> None:
        raise sqlite3.OperationalError("disk I/O error")

    service.topic(TOPIC)
    monkeypatch.setattr(service.gateway.reader, "catch_up", broken)
    with service.client() as client:
        asked = [MetadataRequestTopic(name=name) for name in (TOPIC, "perhaps.new")]
        topics = client.ask(MetadataRequest(topics=asked), 9).topics
        assert [topic.error_code for topic in topics] == [0, ErrorCode.LEADER_NOT_AVAILABLE]
