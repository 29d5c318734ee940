"""ListOffsets (2): the offset for a timestamp, or the earliest (-2), the latest (-1), the newest's (-3)."""

from protocol.message import field, int8, int16, int32, int64, message, struct


@struct
class ListOffsetsPartition:
    partition_index: int32
    current_leader_epoch: int32 = field("4+", default=-1)
    timestamp: int64


@struct
class ListOffsetsTopic:
    name: str
    partitions: list[ListOffsetsPartition]


@message(key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest:
    replica_id: int32 = -1
    isolation_level: int8 = field("2+", default=0)
    topics: list[ListOffsetsTopic]
    timeout_ms: int32 = field("10+", default=0)


@struct
class ListOffsetsPartitionResponse:
    partition_index: int32
    error_code: int16 = 0
    timestamp: int64 = -1
    offset: int64 = -1
    leader_epoch: int32 = field("4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str
    partitions: list[ListOffsetsPartitionResponse]


@message(key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse:
    throttle_time_ms: int32 = field("2+", default=0)
    topics: list[ListOffsetsTopicResponse]
