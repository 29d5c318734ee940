"""The demo's own consumer: stock confluent-kafka with its Avro deserializer, and nothing of Tidegate's."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.config import ConfigError

_POLL_S: Final = 0.2
_BATCH: Final = 1000
_TIMEOUT_S: Final = 10.0
_PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Change:
    """One decoded record; `envelope` is None for a tombstone."""

    topic: str
    offset: int
    key: Mapping[str, Any]
    envelope: Mapping[str, Any] | None

    @property
    def table(self) -> str:
        """The last part of the topic's name."""
        return self.topic.rpartition(".")[2]


class Reader:
    """Reads topics from their beginning and decodes what they hold; for one thread."""

    def __init__(self, kafka: str, registry: str, topics: Sequence[str]) -> None:
        try:
            import confluent_kafka
            from confluent_kafka.schema_registry import SchemaRegistryClient
            from confluent_kafka.schema_registry.avro import AvroDeserializer
            from confluent_kafka.serialization import MessageField, SerializationContext
        except ImportError as error:
            raise ConfigError(
                f"{error.name} is missing: install the extra, pip install 'tidegate[demo]'"
            ) from error
        self._module = confluent_kafka
        self._key_field = MessageField.KEY
        self._value_field = MessageField.VALUE
        self._context = SerializationContext
        self._decode = AvroDeserializer(SchemaRegistryClient({"url": f"http://{registry}"}))
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": kafka,
                "group.id": "tidegate-demo",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self._next = dict.fromkeys(topics, 0)
        self._consumer.assign(
            [confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING) for topic in topics]
        )

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def poll(self, timeout_s: float = _POLL_S) -> Iterator[Change]:
        """What comes within the time, at most a thousand changes."""
        for message in self._consumer.consume(_BATCH, timeout_s):
            if message.error():
                raise self._module.KafkaException(message.error())
            topic, offset = message.topic(), message.offset()
            assert topic is not None
            assert offset is not None
            self._next[topic] = offset + 1
            key = self._decode(message.key(), self._context(topic, self._key_field))
            envelope = self._decode(message.value(), self._context(topic, self._value_field))
            yield Change(topic, offset, key or {}, envelope)

    def behind(self) -> int:
        """How many records the broker has that have not been read, by its high watermarks."""
        total = 0
        for topic, offset in self._next.items():
            partition = self._module.TopicPartition(topic, 0)
            _, high_watermark = self._consumer.get_watermark_offsets(partition, timeout=_TIMEOUT_S)
            total += high_watermark - offset
        return total


def wait_for_topics(kafka: str, topics: Sequence[str], stop: threading.Event) -> None:
    """Return when the broker lists all the topics, or `stop` is set."""
    import confluent_kafka

    settings = {"bootstrap.servers": kafka, "group.id": "tidegate-demo", "log_level": 0}
    consumer = confluent_kafka.Consumer(settings)
    try:
        while not stop.is_set():
            if set(topics) <= consumer.list_topics(timeout=_TIMEOUT_S).topics.keys():
                return
            stop.wait(_POLL_S)
    finally:
        consumer.close()


def show_changes(
    kafka: str, registry: str, topics: Sequence[str], say: Callable[[str], None], stop: threading.Event
) -> None:
    """Say streamed changes until `stop` is set, one of each table a second; for a thread of its own."""
    wait_for_topics(kafka, topics, stop)
    if stop.is_set():
        return
    reader = Reader(kafka, registry, topics)
    try:
        while not stop.is_set():
            changes = [change for change in reader.poll() if change.envelope and change.envelope["op"] != "r"]
            newest = {change.table: change for change in changes}
            for change in newest.values():
                say(described(change))
            if len(changes) > len(newest):
                say(f"  ... and {len(changes) - len(newest)} more")
            if changes:
                stop.wait(_PAUSE_S)
    finally:
        reader.close()


_OPERATIONS: Final = {"c": "insert", "u": "update", "d": "delete", "r": "read"}


def described(change: Change) -> str:
    """A change on one line: table, operation, and the row after it (of a delete, the key)."""
    assert change.envelope is not None
    row = change.envelope["after"] or change.key
    text = json.dumps(row, ensure_ascii=False, default=str)
    return f"  {change.table:<12} {_OPERATIONS.get(change.envelope['op'], '?'):<7} {text}"
