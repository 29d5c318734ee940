"""Fetch: slices of the log as they lie there. It waits while records are too few, and opens no session.

Sessions (KIP-227) are declined in the way that the KIP provides: a response with session id 0, after which
clients send whole requests. A partition has one leader epoch for ever, nothing is transactional, and so the
last stable offset is the high watermark.

A partition that one request lists again gets INVALID_REQUEST there. (Kafka keeps the last of them; no client
sends such.) So a request that waits is no larger than the log has partitions.
"""

import sqlite3
from collections.abc import Collection, Hashable
from typing import Final, cast

from capture.log import LogError, LogReader, OffsetOutOfRange, PartitionReader, Topic
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
_MAX_WAIT_MS: Final = 300_000
"""`max_wait_ms` is a maximum, so whoever asks for more is answered after this; clients wait half a second."""


class _Look:
    """One look at the log for one request: the response so far, and whether it will do."""

    __slots__ = ("_unknown", "partition_ids", "record_bytes", "response", "urgent")

    def __init__(self, request: FetchRequest, version: int, reader: LogReader) -> None:
        self.response = FetchResponse(responses=[])
        self.record_bytes = 0
        self.urgent = False
        """Whether the client must hear at once of something that is not records."""
        self.partition_ids: set[int] = set()
        """The partitions asked for, of those that there are."""
        self._unknown: ErrorCode | None = None
        """What was said of the first topic that the catalog does not know."""
        by_id = version >= _BY_ID
        for asked in request.topics:
            if not asked.partitions:
                continue
            answers: list[PartitionData] = []
            self.response.responses.append(
                FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=answers)
            )
            try:
                topic = self._topic(asked, reader, by_id)
            except KafkaError as error:
                answers += [_refused(partition, error.code) for partition in asked.partitions]
                self.urgent = True
                continue
            for partition in asked.partitions:
                try:
                    log = partition_of(reader, topic, partition.partition)
                    answers.append(self._partition(partition, log, request))
                except KafkaError as error:
                    answers.append(_refused(partition, error.code))
                    self.urgent = True

    def enough(self, request: FetchRequest) -> bool:
        """Whether this is to be answered now rather than later."""
        return self.record_bytes >= request.min_bytes or self.urgent

    def _topic(self, asked: FetchTopic, reader: LogReader, by_id: bool) -> Topic:
        """The topic, for which the catalog is not looked at again once it did not know another."""
        topic = reader.topics_by_id.get(asked.topic_id) if by_id else reader.topics.get(asked.topic)
        if topic is not None:
            return topic
        if self._unknown is not None:
            raise KafkaError(self._unknown, "The catalog was looked at for this request before.")
        try:
            return topic_by_id(reader, asked.topic_id) if by_id else topic_by_name(reader, asked.topic)
        except KafkaError as error:
            self._unknown = error.code
            raise

    def _partition(self, asked: FetchPartition, log: PartitionReader, request: FetchRequest) -> PartitionData:
        if log.partition_id in self.partition_ids:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Partition {asked.partition} is listed twice.")
        self.partition_ids.add(log.partition_id)
        if asked.current_leader_epoch != log.leader_epoch:
            check_leader_epoch(log.leader_epoch, asked.current_leader_epoch)
        high_watermark = log.high_watermark
        records: memoryview | bytes | None = b""
        diverging_epoch = None
        if asked.last_fetched_epoch >= 0:
            diverging_epoch = _divergence(asked, log)
        left = request.max_bytes - self.record_bytes
        if diverging_epoch is not None:
            self.urgent = True
        elif left > 0 or not self.record_bytes:
            records = self._records(asked, log, left)
        return PartitionData(
            partition_index=asked.partition,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            log_start_offset=log.log_start_offset,
            diverging_epoch=diverging_epoch,
            aborted_transactions=[] if request.isolation_level == _READ_COMMITTED else None,
            records=records,
        )

    def _records(self, asked: FetchPartition, log: PartitionReader, left: int) -> memoryview | bytes:
        try:
            records = log.read_to_send(asked.fetch_offset, min(left, asked.partition_max_bytes))
        except OffsetOutOfRange as error:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, str(error)) from error
        except (LogError, OSError, sqlite3.Error) as error:
            raise unreadable(error) from error
        if records is None:
            return b""
        size = len(records)
        if size > left and self.record_bytes:
            # Only the first batch of a response comes whole even above max_bytes, or a client could never get
            # past it (KIP-74).
            return b""
        self.record_bytes += size
        # A range of a file passes the encoder as it is, like all long records; the connection sends it.
        return cast(memoryview, records)


def handle(request: FetchRequest, context: Context) -> FetchResponse | ParkedFetch:
    """Answer at once if there are records enough, an error, or nothing to wait for; else later."""
    if request.session_id or request.session_epoch > 0:
        # Nobody was given a session; this is Kafka's answer to one that it does not know.
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    look = _Look(request, context.api_version, context.reader)
    if look.enough(request) or request.max_wait_ms <= 0 or not look.partition_ids:
        context.metrics.fetch_bytes += look.record_bytes
        return look.response
    return _park(request, context, look.partition_ids)


def _park(request: FetchRequest, context: Context, partition_ids: Collection[int]) -> ParkedFetch:
    version = context.api_version
    # What has no bound and does not matter is not kept while it waits.
    request.topics = [topic for topic in request.topics if topic.partitions]
    request.forgotten_topics_data = []

    def answer(anyway: bool) -> FetchResponse | None:
        look = _Look(request, version, context.reader)
        if not anyway and not look.enough(request):
            return None
        context.metrics.fetch_bytes += look.record_bytes
        return look.response

    return context.parked.park(
        partition_ids,
        wait_ms=min(request.max_wait_ms, _MAX_WAIT_MS),
        question=_question(request, version),
        answer=answer,
    )


def _divergence(asked: FetchPartition, log: PartitionReader) -> EpochEndOffset | None:
    """Where the log ends, for a client that read records which it does not have (KIP-595)."""
    if asked.last_fetched_epoch > log.leader_epoch:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "Records of an epoch that has not begun.")
    if asked.fetch_offset <= log.high_watermark:
        return None
    return EpochEndOffset(epoch=log.leader_epoch, end_offset=log.high_watermark)


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
