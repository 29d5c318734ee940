"""OffsetForLeaderEpoch (23): where an epoch ended, by which clients detect truncation (KIP-320)."""

from protocol.message import field, int16, int32, int64, message, struct


@struct
class OffsetForLeaderPartition:
    partition: int32
    current_leader_epoch: int32 = -1
    leader_epoch: int32


@struct
class OffsetForLeaderTopic:
    topic: str
    partitions: list[OffsetForLeaderPartition]


@message(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    replica_id: int32 = field("3+", default=-2)
    topics: list[OffsetForLeaderTopic]


@struct
class EpochEndOffset:
    error_code: int16 = 0
    partition: int32
    leader_epoch: int32 = -1
    end_offset: int64 = -1


@struct
class OffsetForLeaderTopicResult:
    topic: str
    partitions: list[EpochEndOffset]


@message(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int32 = 0
    topics: list[OffsetForLeaderTopicResult]
