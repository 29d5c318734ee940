"""OffsetDelete (47): forget what a group committed for some partitions (KIP-496)."""

from protocol.message import int16, int32, message, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: int32


@struct
class OffsetDeleteRequestTopic:
    name: str
    partitions: list[OffsetDeleteRequestPartition]


@message(key=47, versions="0", flexible="none")
class OffsetDeleteRequest:
    group_id: str
    topics: list[OffsetDeleteRequestTopic]


@struct
class OffsetDeleteResponsePartition:
    partition_index: int32
    error_code: int16 = 0


@struct
class OffsetDeleteResponseTopic:
    name: str
    partitions: list[OffsetDeleteResponsePartition]


@message(key=47, versions="0", flexible="none")
class OffsetDeleteResponse:
    error_code: int16 = 0
    throttle_time_ms: int32 = 0
    topics: list[OffsetDeleteResponseTopic]
