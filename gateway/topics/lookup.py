"""Topics and partitions as clients name them, by name or by id, with the checks that Kafka makes."""

import uuid
from typing import Final

from capture.log import LogReader, PartitionReader, Topic
from protocol.errors import ErrorCode, KafkaError

TOPIC_OPERATIONS: Final = 1 << 3 | 1 << 8 | 1 << 10
"""What a client may do with a topic, as bits of org.apache.kafka.common.acl.AclOperation: read, describe, describe its
configuration. Clients can change nothing."""

CLUSTER_OPERATIONS: Final = 1 << 8 | 1 << 10
"""The same of the cluster: describe, describe its configuration."""


def topic_by_name(reader: LogReader, name: str) -> Topic | None:
    """The topic called `name`; one that is not known is looked up in the catalog first, for it may be new."""
    topic = reader.topics.get(name)
    if topic is None:
        reader.refresh()
        topic = reader.topics.get(name)
    return topic


def topic_by_id(reader: LogReader, topic_id: uuid.UUID) -> Topic | None:
    """The topic with this id, likewise."""
    topic = reader.topics_by_id.get(topic_id)
    if topic is None:
        reader.refresh()
        topic = reader.topics_by_id.get(topic_id)
    return topic


def partition_of(reader: LogReader, topic: Topic, index: int) -> PartitionReader:
    """Partition `index` of a topic; raise KafkaError(UNKNOWN_TOPIC_OR_PARTITION) when it has no such partition."""
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name} has no partition {index}")
    return reader.partition(topic.partitions[index].partition_id)


def check_leader_epoch(leader_epoch: int, asked: int) -> None:
    """Compare the epoch that a client believes in (-1: it has no belief) with ours, as Kafka does (KIP-320).

    Raises KafkaError: FENCED_LEADER_EPOCH for an older one, UNKNOWN_LEADER_EPOCH for a newer one.
    """
    if asked < 0 or asked == leader_epoch:
        return
    if asked < leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {asked} is over, {leader_epoch} is current")
    raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"epoch {asked} has not begun, {leader_epoch} is current")
