"""ListOffsets: the latest offset (-1), the earliest (-2), the newest record (-3), or that of a timestamp."""

from typing import Final

from capture.log import LogError, PartitionReader
from gateway.context import Context
from gateway.topics.lookup import check_leader_epoch, partition_of, topic_by_name, unreadable
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
_TIERED: Final = (-4, -5, -6)
"""Earliest local, latest tiered, earliest pending upload: all of them ask about storage that is not here."""
_MAX_TIMESTAMP_FROM: Final = 7
_NONE: Final = -1


def handle(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    """Answer each partition for itself."""
    return ListOffsetsResponse(topics=[_topic(topic, context) for topic in request.topics])


def _topic(asked: ListOffsetsTopic, context: Context) -> ListOffsetsTopicResponse:
    answers = []
    for partition in asked.partitions:
        try:
            topic = topic_by_name(context.reader, asked.name)
            log = partition_of(context.reader, topic, partition.partition_index)
            check_leader_epoch(log.leader_epoch, partition.current_leader_epoch)
            answers.append(_partition(partition, log, context.api_version))
        except LogError as error:
            answers.append(_refused(partition, unreadable(error)))
        except KafkaError as error:
            answers.append(_refused(partition, error))
    return ListOffsetsTopicResponse(name=asked.name, partitions=answers)


def _refused(asked: ListOffsetsPartition, error: KafkaError) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error.code)


def _partition(
    asked: ListOffsetsPartition, log: PartitionReader, version: int
) -> ListOffsetsPartitionResponse:
    offset, timestamp = _find(asked.timestamp, log, version)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=_NONE if offset == _NONE else log.leader_epoch,
    )


def _find(timestamp: int, log: PartitionReader, version: int) -> tuple[int, int]:
    """The offset and its record's timestamp; -1 for each that there is not."""
    if timestamp >= 0:
        return log.offset_for_timestamp(timestamp) or (_NONE, _NONE)
    if timestamp == LATEST:
        return log.high_watermark, _NONE
    if timestamp == EARLIEST:
        return log.log_start_offset, _NONE
    if timestamp == MAX_TIMESTAMP and version >= _MAX_TIMESTAMP_FROM:
        return log.max_timestamp() or (_NONE, _NONE)
    if timestamp == MAX_TIMESTAMP or timestamp in _TIERED:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} is not served")
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"timestamp {timestamp} means nothing")
