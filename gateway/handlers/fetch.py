"""Fetch: slices of the log as they lie there. It waits for records when there are too few, and opens no session.

Sessions (KIP-227) are declined in the way that the KIP provides: a response with session id 0, after which clients
send whole requests. A partition has one leader epoch for ever, nothing is transactional, and so the last stable
offset is the high watermark.
"""

from collections.abc import Hashable
from typing import Final

from capture.log import LogError, OffsetOutOfRange, PartitionReader
from gateway.context import Context
from gateway.topics.lookup import check_leader_epoch, partition_of, topic_by_id, topic_by_name, unreadable
from gateway.topics.parked import ParkedFetch
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

_BY_ID: Final = 13
"""From this version on topics are named by id (KIP-516)."""
_UNKNOWN: Final = -1
_READ_COMMITTED: Final = 1


class _Found:
    """What one look at the log gave for a request."""

    __slots__ = ("partition_ids", "record_bytes", "response", "urgent")

    def __init__(self) -> None:
        self.response = FetchResponse(responses=[])
        self.record_bytes = 0
        self.urgent = False
        """Whether the client must hear at once of something that is not records."""
        self.partition_ids: list[int] = []

    def enough(self, request: FetchRequest) -> bool:
        """Whether this is to be answered now rather than later."""
        return self.record_bytes >= request.min_bytes or self.urgent


def handle(request: FetchRequest, context: Context) -> FetchResponse | ParkedFetch:
    """Answer at once if there are records enough, an error, or nothing to wait for; else as soon as there are."""
    if request.session_id or request.session_epoch > 0:
        # Nobody was given a session; this is Kafka's answer to one that it does not know.
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    version = context.api_version
    found = _look(request, version, context)
    if found.enough(request) or request.max_wait_ms <= 0 or not found.partition_ids:
        context.metrics.fetch_bytes += found.record_bytes
        return found.response

    def answer(anyway: bool) -> FetchResponse | None:
        found = _look(request, version, context)
        if not anyway and not found.enough(request):
            return None
        context.metrics.fetch_bytes += found.record_bytes
        return found.response

    return context.parked.park(
        found.partition_ids,
        wait_ms=request.max_wait_ms,
        question=_question(request, version),
        answer=answer,
    )


def _look(request: FetchRequest, version: int, context: Context) -> _Found:
    found = _Found()
    for asked in request.topics:
        found.response.responses.append(_topic(asked, request, version, context, found))
    return found


def _topic(
    asked: FetchTopic, request: FetchRequest, version: int, context: Context, found: _Found
) -> FetchableTopicResponse:
    reader = context.reader
    answer = FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=[])
    try:
        topic = (
            topic_by_id(reader, asked.topic_id) if version >= _BY_ID else topic_by_name(reader, asked.topic)
        )
    except KafkaError as error:
        answer.partitions = [_refused(partition, error.code) for partition in asked.partitions]
        found.urgent = True
        return answer
    for partition in asked.partitions:
        try:
            log = partition_of(reader, topic, partition.partition)
            check_leader_epoch(log.leader_epoch, partition.current_leader_epoch)
            data = _partition(partition, log, request, found)
        except KafkaError as error:
            data = _refused(partition, error.code)
            found.urgent = True
        answer.partitions.append(data)
    return answer


def _partition(
    asked: FetchPartition, log: PartitionReader, request: FetchRequest, found: _Found
) -> PartitionData:
    high_watermark = log.high_watermark
    data = PartitionData(
        partition_index=asked.partition,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=log.log_start_offset,
        aborted_transactions=[] if request.isolation_level == _READ_COMMITTED else None,
        records=b"",
    )
    if asked.last_fetched_epoch >= 0 and _diverges(asked, log, data):
        found.urgent = True
        return data
    left = request.max_bytes - found.record_bytes
    if found.record_bytes and left <= 0:
        return data
    try:
        records = log.read(asked.fetch_offset, min(left, asked.partition_max_bytes))
    except OffsetOutOfRange as error:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, str(error)) from error
    except LogError as error:
        raise unreadable(error) from error
    if records is None:
        found.partition_ids.append(log.partition_id)
    elif not found.record_bytes or len(records) <= left:
        # The first batch of a response is whole even above max_bytes, or a client could never get past it (KIP-74).
        data.records = records
        found.record_bytes += len(records)
        found.partition_ids.append(log.partition_id)
    return data


def _diverges(asked: FetchPartition, log: PartitionReader, data: PartitionData) -> bool:
    """Whether the client read records that this log does not have (KIP-595); the response says where it ends."""
    if asked.last_fetched_epoch > log.leader_epoch:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "records of an epoch that has not begun")
    if asked.fetch_offset <= log.high_watermark:
        return False
    data.diverging_epoch = EpochEndOffset(epoch=log.leader_epoch, end_offset=log.high_watermark)
    return True


def _refused(asked: FetchPartition, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=asked.partition,
        error_code=code,
        high_watermark=_UNKNOWN,
        last_stable_offset=_UNKNOWN,
        log_start_offset=_UNKNOWN,
        records=b"",
    )


def _question(request: FetchRequest, version: int) -> Hashable:
    """What two requests must agree in to get the same response."""
    return (
        version,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        tuple(
            (
                topic.topic,
                topic.topic_id,
                asked.partition,
                asked.fetch_offset,
                asked.partition_max_bytes,
                asked.current_leader_epoch,
                asked.last_fetched_epoch,
            )
            for topic in request.topics
            for asked in topic.partitions
        ),
    )
