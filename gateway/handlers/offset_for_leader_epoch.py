"""OffsetForLeaderEpoch: where a leader epoch ended. There is one epoch, and it has not ended."""

from gateway.context import Context
from gateway.topics.lookup import check_leader_epoch, partition_of, topic_by_name
from protocol.errors import KafkaError
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)


def handle(request: OffsetForLeaderEpochRequest, context: Context) -> OffsetForLeaderEpochResponse:
    """Answer each partition for itself."""
    return OffsetForLeaderEpochResponse(topics=[_topic(topic, context) for topic in request.topics])


def _topic(asked: OffsetForLeaderTopic, context: Context) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(
        topic=asked.topic,
        partitions=[_partition(asked.topic, partition, context) for partition in asked.partitions],
    )


def _partition(name: str, asked: OffsetForLeaderPartition, context: Context) -> EpochEndOffset:
    try:
        topic = topic_by_name(context.reader, name)
        log = partition_of(context.reader, topic, asked.partition)
        check_leader_epoch(log.leader_epoch, asked.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=asked.partition, error_code=error.code)
    if asked.leader_epoch != log.leader_epoch:
        # An epoch that has not begun, or none at all: Kafka's answer is -1 for both epoch and offset.
        return EpochEndOffset(partition=asked.partition)
    return EpochEndOffset(
        partition=asked.partition, leader_epoch=log.leader_epoch, end_offset=log.high_watermark
    )
