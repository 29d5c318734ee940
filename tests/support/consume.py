"""Reading topics with a stock consumer (confluent-kafka): all there is, or on and on beside a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.fold import Record

TIMEOUT_S = 60.0


def configuration(bootstrap: str, **settings: object) -> dict[str, Any]:
    """A consumer's configuration in its defaults, from the start of each topic."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }


def ends(bootstrap: str, topics: Iterable[str]) -> dict[str, int]:
    """The high watermark of each topic's one partition."""
    consumer = Consumer(configuration(bootstrap))
    try:
        return {
            topic: consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1] for topic in topics
        }
    finally:
        consumer.close()


def topics(bootstrap: str, prefix: str) -> list[str]:
    """The topics whose names begin with `prefix` and a dot."""
    consumer = Consumer(configuration(bootstrap))
    try:
        found = consumer.list_topics(timeout=10).topics
    finally:
        consumer.close()
    return sorted(name for name in found if name.startswith(f"{prefix}."))


def read(bootstrap: str, names: Sequence[str]) -> dict[str, list[Record]]:
    """Every record of the topics up to the high watermarks of now."""
    until = ends(bootstrap, names)
    reader = Reader(bootstrap, names)
    with reader:
        reader.wait(lambda got: all(len(got[name]) >= end for name, end in until.items()))
    return {name: reader.records[name][: until[name]] for name in names}


class Reader:
    """A consumer that goes on reading in a thread; errors that librdkafka retries are noted, not raised."""

    def __init__(self, bootstrap: str, names: Sequence[str], **settings: object) -> None:
        self.records: dict[str, list[Record]] = {name: [] for name in names}
        self.errors: list[str] = []
        self._consumer = Consumer(configuration(bootstrap, **settings))
        self._consumer.assign([TopicPartition(name, 0, confluent_kafka.OFFSET_BEGINNING) for name in names])
        self._changed = threading.Condition()
        self._stop = False
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop = True
        self._thread.join(TIMEOUT_S)
        self._consumer.close()

    def wait(
        self, enough: Callable[[dict[str, list[Record]]], bool], *, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Wait until what was read is enough; AssertionError with what is there otherwise."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not enough(self.records):
                if self._failed is not None:
                    raise self._failed
                counts = {name: len(found) for name, found in self.records.items()}
                assert time.monotonic() < deadline, f"read only {counts}; {self.errors[-3:]}"
                self._changed.wait(0.2)

    def wait_for(self, topic: str, needle: bytes, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait for a record of the topic whose value contains `needle`."""
        looked = 0

        def found(records: dict[str, list[Record]]) -> bool:
            nonlocal looked
            new = records[topic][looked:]
            looked += len(new)
            return any(record.value is not None and needle in record.value for record in new)

        self.wait(found, timeout_s=timeout_s)

    def _run(self) -> None:
        try:
            while not self._stop:
                messages = self._consumer.consume(num_messages=1000, timeout=0.1)
                with self._changed:
                    for message in messages:
                        self._take(message)
                    if messages:
                        self._changed.notify_all()
        except BaseException as error:
            self._failed = error

    def _take(self, message: confluent_kafka.Message) -> None:
        error = message.error()
        if error is None:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            self.records[topic].append(Record(topic, partition, offset, message.key(), message.value()))
        elif error.code() != KafkaError._PARTITION_EOF:
            self.errors.append(str(error))
