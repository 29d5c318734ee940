"""OffsetCommit (8): keep a group's offsets; topics by name, from version 10 on by id (KIP-848)."""

from uuid import UUID

from protocol.message import field, int16, int32, int64, message, struct
from protocol.schema import ZERO_UUID


@struct
class OffsetCommitRequestPartition:
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field("6+", default=-1)
    commit_timestamp: int64 = field("1", default=-1)
    committed_metadata: str | None = field(nullable="0+")


@struct
class OffsetCommitRequestTopic:
    name: str = field("0-9", default="")
    topic_id: UUID = field("10+", default=ZERO_UUID)
    partitions: list[OffsetCommitRequestPartition]


@message(key=8, versions="0-10", flexible="8+")
class OffsetCommitRequest:
    """A generation of -1 and no member id commit without membership. Kafka 4 knows versions 2 and up only."""

    group_id: str
    generation_id_or_member_epoch: int32 = field("1+", default=-1)
    member_id: str = field("1+", default="")
    group_instance_id: str | None = field("7+", nullable="7+", default=None)
    retention_time_ms: int64 = field("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic]


@struct
class OffsetCommitResponsePartition:
    partition_index: int32
    error_code: int16 = 0


@struct
class OffsetCommitResponseTopic:
    name: str = field("0-9", default="")
    topic_id: UUID = field("10+", default=ZERO_UUID)
    partitions: list[OffsetCommitResponsePartition]


@message(key=8, versions="0-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: int32 = field("3+", default=0)
    topics: list[OffsetCommitResponseTopic]
