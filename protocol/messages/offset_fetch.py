"""OffsetFetch (9): what a group committed; many groups at once from version 8 on, topics by id from 10."""

from uuid import UUID

from protocol.message import field, int16, int32, int64, message, struct
from protocol.schema import ZERO_UUID


@struct
class OffsetFetchRequestTopic:
    name: str
    partition_indexes: list[int32]


@struct
class OffsetFetchRequestTopics:
    name: str = field("0-9", default="")
    topic_id: UUID = field("10+", default=ZERO_UUID)
    partition_indexes: list[int32]


@struct
class OffsetFetchRequestGroup:
    """`topics` None asks for everything that the group committed."""

    group_id: str
    member_id: str | None = field("9+", nullable="9+", default=None)
    member_epoch: int32 = field("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(nullable="8+")


@message(key=9, versions="0-10", flexible="6+")
class OffsetFetchRequest:
    """Up to version 7 one group stands in the body (`topics` None: all), then they stand in `groups`."""

    group_id: str = field("0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7", default_factory=list)
    groups: list[OffsetFetchRequestGroup] = field("8+", default_factory=list)
    require_stable: bool = field("7+", default=False)


@struct
class OffsetFetchResponsePartition:
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field("5-7", default=-1)
    metadata: str | None = field(nullable="0-7")
    error_code: int16 = 0


@struct
class OffsetFetchResponseTopic:
    name: str
    partitions: list[OffsetFetchResponsePartition]


@struct
class OffsetFetchResponsePartitions:
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = -1
    metadata: str | None = field(nullable="8+")
    error_code: int16 = 0


@struct
class OffsetFetchResponseTopics:
    name: str = field("0-9", default="")
    topic_id: UUID = field("10+", default=ZERO_UUID)
    partitions: list[OffsetFetchResponsePartitions]


@struct
class OffsetFetchResponseGroup:
    group_id: str
    topics: list[OffsetFetchResponseTopics]
    error_code: int16 = 0


@message(key=9, versions="0-10", flexible="6+")
class OffsetFetchResponse:
    throttle_time_ms: int32 = field("3+", default=0)
    topics: list[OffsetFetchResponseTopic] = field("0-7", default_factory=list)
    error_code: int16 = field("2-7", default=0)
    groups: list[OffsetFetchResponseGroup] = field("8+", default_factory=list)
