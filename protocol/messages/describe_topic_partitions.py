"""DescribeTopicPartitions (75): topics page by page, for administration (KIP-966)."""

from uuid import UUID

from protocol.message import field, int16, int32, message, struct
from protocol.messages.metadata import UNKNOWN_OPERATIONS
from protocol.schema import ZERO_UUID


@struct
class TopicRequest:
    name: str


@struct
class Cursor:
    """The first partition of the next page."""

    topic_name: str
    partition_index: int32


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """No topics at all means every topic."""

    topics: list[TopicRequest]
    response_partition_limit: int32 = 2000
    cursor: Cursor | None = field(nullable="0+", default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    """The two lists of eligible leaders may be null, but Java's Admin fails at null: leave them empty."""

    error_code: int16 = 0
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = -1
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    eligible_leader_replicas: list[int32] | None = field(nullable="0+", default_factory=list)
    last_known_elr: list[int32] | None = field(nullable="0+", default_factory=list)
    offline_replicas: list[int32]


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int16 = 0
    name: str | None = field(nullable="0+")
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: int32 = UNKNOWN_OPERATIONS


@message(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = field(nullable="0+", default=None)
