"""Fetch (1): record batches from partitions, with sessions (KIP-227) and long polls."""

from uuid import UUID

from protocol.message import Records, field, int8, int16, int32, int64, message, struct
from protocol.schema import ZERO_UUID

NO_HIGH_WATERMARK = 9223372036854775807
"""The high watermark of a fetcher that does not know one (KIP-1166)."""


@struct
class ReplicaState:
    replica_id: int32 = -1
    replica_epoch: int64 = -1


@struct
class FetchPartition:
    partition: int32
    current_leader_epoch: int32 = field("9+", default=-1)
    fetch_offset: int64
    last_fetched_epoch: int32 = field("12+", default=-1)
    log_start_offset: int64 = field("5+", default=-1)
    partition_max_bytes: int32
    replica_directory_id: UUID = field("17+", tag=0, default=ZERO_UUID)
    high_watermark: int64 = field("18+", tag=1, default=NO_HIGH_WATERMARK)


@struct
class FetchTopic:
    topic: str = field("0-12", default="")
    topic_id: UUID = field("13+", default=ZERO_UUID)
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    topic: str = field("7-12", default="")
    topic_id: UUID = field("13+", default=ZERO_UUID)
    partitions: list[int32]


@message(key=1, versions="4-18", flexible="12+")
class FetchRequest:
    """Consumers send `replica_id` -1 and no `replica_state`; those are for brokers that follow a leader."""

    cluster_id: str | None = field("12+", nullable="12+", tag=0, default=None)
    replica_id: int32 = field("0-14", default=-1)
    replica_state: ReplicaState | None = field("15+", tag=1, default=None)
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = 0x7FFFFFFF
    isolation_level: int8 = 0
    session_id: int32 = field("7+", default=0)
    session_epoch: int32 = field("7+", default=-1)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field("7+", default_factory=list)
    rack_id: str = field("11+", default="")


@struct
class EpochEndOffset:
    epoch: int32 = -1
    end_offset: int64 = -1


@struct
class LeaderIdAndEpoch:
    leader_id: int32 = -1
    leader_epoch: int32 = -1


@struct
class SnapshotId:
    end_offset: int64 = -1
    epoch: int32 = -1


@struct
class AbortedTransaction:
    producer_id: int64
    first_offset: int64


@struct
class PartitionData:
    """A partition's answer; `records` is a slice of the log, handed on as it is."""

    partition_index: int32
    error_code: int16 = 0
    high_watermark: int64
    last_stable_offset: int64 = -1
    log_start_offset: int64 = field("5+", default=-1)
    diverging_epoch: EpochEndOffset | None = field("12+", tag=0, default=None)
    current_leader: LeaderIdAndEpoch | None = field("12+", tag=1, default=None)
    snapshot_id: SnapshotId | None = field("12+", tag=2, default=None)
    aborted_transactions: list[AbortedTransaction] | None = field(nullable="0+", default=None)
    preferred_read_replica: int32 = field("11+", default=-1)
    records: Records | None = field(nullable="0+", default=None)


@struct
class FetchableTopicResponse:
    topic: str = field("0-12", default="")
    topic_id: UUID = field("13+", default=ZERO_UUID)
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: int32
    host: str
    port: int32
    rack: str | None = field(nullable="16+", default=None)


@message(key=1, versions="4-18", flexible="12+")
class FetchResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = field("7+", default=0)
    session_id: int32 = field("7+", default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0, default_factory=list)
