"""Topics and partitions as clients name them, by name or by id, with Kafka's checks and errors."""

import logging
import sqlite3
import uuid
from typing import Final

from capture.log import LogError, LogReader, PartitionReader, Topic
from protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

TOPIC_OPERATIONS: Final = 1 << 3 | 1 << 8 | 1 << 10
"""What a client may do with a topic, as bits of org.apache.kafka.common.acl.AclOperation: read, describe,
describe its configuration. Clients can change nothing."""

CLUSTER_OPERATIONS: Final = 1 << 8 | 1 << 10
"""The same of the cluster: describe, describe its configuration."""


def topic_by_name(reader: LogReader, name: str) -> Topic:
    """The topic called `name`; one that is not known is looked up in the catalog first, for it may be new.

    Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, or LEADER_NOT_AVAILABLE, which clients retry, when the
    catalog does not answer.
    """
    topic = reader.topics.get(name)
    if topic is None:
        _look_again(reader)
        topic = reader.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name!r}.")
    return topic


def topic_by_id(reader: LogReader, topic_id: uuid.UUID) -> Topic:
    """The topic with this id, likewise; the error is UNKNOWN_TOPIC_ID."""
    topic = reader.topics_by_id.get(topic_id)
    if topic is None:
        _look_again(reader)
        topic = reader.topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic with id {topic_id}.")
    return topic


def _look_again(reader: LogReader) -> None:
    try:
        reader.catch_up()
    except (LogError, sqlite3.Error) as error:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"The catalog does not answer: {error}") from error


def partition_of(reader: LogReader, topic: Topic, index: int) -> PartitionReader:
    """Partition `index` of a topic; raise KafkaError(UNKNOWN_TOPIC_OR_PARTITION) when it has none such."""
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name} has no partition {index}.")
    return reader.partition(topic.partitions[index].partition_id)


def check_leader_epoch(leader_epoch: int, asked: int) -> None:
    """Compare the epoch that a client believes in (-1: it has no belief) with ours, as Kafka does (KIP-320).

    Raises KafkaError: FENCED_LEADER_EPOCH for an older one, UNKNOWN_LEADER_EPOCH for a newer one.
    """
    if asked < 0 or asked == leader_epoch:
        return
    if asked < leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"Epoch {asked} is over, now is {leader_epoch}.")
    raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"Epoch {asked} has not begun, now is {leader_epoch}.")


_told: set[str] = set()


def unreadable(error: LogError | OSError | sqlite3.Error) -> KafkaError:
    """What a client is told of a partition that cannot be read; the operator is told once of each damage."""
    text = str(error)
    if text not in _told:
        _told.add(text)
        log.error("a partition cannot be read", extra={"error": text})
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR, "The partition cannot be read; the gateway's log says why."
    )
