"""OffsetFetch: how far groups have read. One group up to version 7, then several; topics by id from version
10 on.

`require_stable` changes nothing: there are no transactions, and a read always comes after the commits before
it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

from capture.log import CommittedOffset, Topic
from gateway.context import Context, Later
from gateway.groups.offset_thread import Partition
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

TOP_LEVEL_ERROR_FROM: Final = 2
BATCHED_FROM: Final = 8
BY_ID_FROM: Final = 10

NOTHING: Final = CommittedOffset(offset=-1, leader_epoch=-1, metadata="", committed_ms=0)
"""What is said of a partition that the group never committed."""

Offsets = Mapping[Partition, CommittedOffset]
_P = TypeVar("_P", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)


def handle(request: OffsetFetchRequest, context: Context) -> Later[OffsetFetchResponse]:
    """Read each group's offsets, all in one job of the offsets' thread."""
    later: Later[OffsetFetchResponse] = Later()
    version = context.api_version
    batched = version >= BATCHED_FROM
    group_ids = [group.group_id for group in request.groups] if batched else [request.group_id]

    def done(found: dict[str, dict[Partition, CommittedOffset]] | KafkaError) -> None:
        error = found.code if isinstance(found, KafkaError) else ErrorCode.NONE
        offsets: Mapping[str, Offsets] = {} if isinstance(found, KafkaError) else found
        if batched:
            groups = [
                _group(asked, offsets.get(asked.group_id, {}), error, version, context)
                for asked in request.groups
            ]
            later.resolve(OffsetFetchResponse(groups=groups))
        else:
            later.resolve(_single(request, offsets.get(request.group_id, {}), error, version, context))

    context.coordinator.fetch(group_ids, done)
    return later


def _single(
    request: OffsetFetchRequest, offsets: Offsets, error: ErrorCode, version: int, context: Context
) -> OffsetFetchResponse:
    topics: Sequence[OffsetFetchRequestTopic] | None = request.topics
    if error and version >= TOP_LEVEL_ERROR_FROM:
        return OffsetFetchResponse(error_code=error)
    if topics is None:
        topics = [
            OffsetFetchRequestTopic(name=topic.name, partition_indexes=indexes)
            for topic, indexes in _committed_topics(offsets, context)
        ]
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=asked.name,
                partitions=_partitions(
                    OffsetFetchResponsePartition,
                    asked.partition_indexes,
                    context.reader.topics.get(asked.name),
                    offsets,
                    error,
                ),
            )
            for asked in topics
        ]
    )


def _group(
    asked: OffsetFetchRequestGroup, offsets: Offsets, error: ErrorCode, version: int, context: Context
) -> OffsetFetchResponseGroup:
    if error:
        return OffsetFetchResponseGroup(group_id=asked.group_id, topics=[], error_code=error)
    topics = asked.topics
    if topics is None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, topic_id=topic.topic_id, partition_indexes=indexes)
            for topic, indexes in _committed_topics(offsets, context)
        ]
    by_id = version >= BY_ID_FROM
    return OffsetFetchResponseGroup(
        group_id=asked.group_id, topics=[_topic(one, offsets, by_id, context) for one in topics]
    )


def _topic(
    asked: OffsetFetchRequestTopics, offsets: Offsets, by_id: bool, context: Context
) -> OffsetFetchResponseTopics:
    error = ErrorCode.NONE
    if by_id:
        topic = context.reader.topics_by_id.get(asked.topic_id)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = context.reader.topics.get(asked.name)
    return OffsetFetchResponseTopics(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=_partitions(OffsetFetchResponsePartitions, asked.partition_indexes, topic, offsets, error),
    )


def _partitions(
    make: Callable[..., _P], indexes: Sequence[int], topic: Topic | None, offsets: Offsets, error: ErrorCode
) -> list[_P]:
    """One entry per index; as in Kafka a topic that is not there by name has simply nothing committed."""
    rendered = []
    for index in indexes:
        committed = NOTHING if topic is None else offsets.get((topic.topic_id, index), NOTHING)
        rendered.append(
            make(
                partition_index=index,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata or "",
                error_code=error,
            )
        )
    return rendered


def _committed_topics(offsets: Offsets, context: Context) -> list[tuple[Topic, list[int]]]:
    """The topics of a group's offsets, with the partitions committed; topics that are gone are left out."""
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, index in offsets:
        by_topic.setdefault(topic_id, []).append(index)
    return [
        (topic, sorted(by_topic[topic_id]))
        for topic_id in by_topic
        if (topic := context.reader.topics_by_id.get(topic_id)) is not None
    ]
