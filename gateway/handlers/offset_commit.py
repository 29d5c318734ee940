"""OffsetCommit: keep how far a group has read, with membership or without; answered once it is durable.

Topics are named up to version 9 and given by id from version 10 on (KIP-848).
"""

from typing import Final

from capture.log import Topic
from gateway.context import Context, Later
from gateway.groups.messages import Identity
from gateway.groups.offset_thread import Offset, Partition
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

BY_ID_FROM: Final = 10


def handle(
    request: OffsetCommitRequest, context: Context
) -> OffsetCommitResponse | Later[OffsetCommitResponse]:
    """Store what can be stored; a partition that is not there, or says too much, fails alone."""
    answer = _Answer(request, context)
    offsets = answer.offsets
    if not offsets:
        return answer.response(ErrorCode.NONE)
    try:
        context.coordinator.check_commit(
            request.group_id,
            Identity(request.member_id, request.group_instance_id),
            request.generation_id_or_member_epoch,
        )
    except KafkaError as refusal:
        return answer.response(refusal.code)
    later: Later[OffsetCommitResponse] = Later()

    def done(error: KafkaError | None) -> None:
        later.resolve(answer.response(error.code if error is not None else ErrorCode.NONE))

    context.coordinator.commit(request.group_id, offsets, done)
    return later


class _Answer:
    """Sorts a request's partitions into those to store and those that fail, and renders the response."""

    def __init__(self, request: OffsetCommitRequest, context: Context) -> None:
        self.offsets: dict[Partition, Offset] = {}
        self._request = request
        self._errors: list[list[ErrorCode]] = []
        """Per topic and partition of the request, in its order."""
        self._metadata_max = context.coordinator.config.offset_metadata_max_bytes
        for asked in request.topics:
            if context.api_version >= BY_ID_FROM:
                topic = context.reader.topics_by_id.get(asked.topic_id)
                unknown = ErrorCode.UNKNOWN_TOPIC_ID
            else:
                topic = context.reader.topics.get(asked.name)
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self._errors.append(
                [unknown if topic is None else self._sort(topic, one) for one in asked.partitions]
            )

    def _sort(self, topic: Topic, asked: OffsetCommitRequestPartition) -> ErrorCode:
        if not 0 <= asked.partition_index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        metadata = asked.committed_metadata or ""
        if len(metadata) > self._metadata_max:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        self.offsets[topic.topic_id, asked.partition_index] = (
            asked.committed_offset,
            asked.committed_leader_epoch,
            metadata,
        )
        return ErrorCode.NONE

    def response(self, outcome: ErrorCode) -> OffsetCommitResponse:
        """The response, `outcome` being that of the partitions that were to be stored."""
        return OffsetCommitResponse(
            topics=[
                _topic(asked, [error or outcome for error in errors])
                for asked, errors in zip(self._request.topics, self._errors, strict=True)
            ]
        )


def _topic(asked: OffsetCommitRequestTopic, errors: list[ErrorCode]) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
            for one, error in zip(asked.partitions, errors, strict=True)
        ],
    )
