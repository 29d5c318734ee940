"""Metadata (3): brokers, topics and their partitions; by name, by id, or all."""

from uuid import UUID

from protocol.message import field, int16, int32, message, struct
from protocol.schema import ZERO_UUID

UNKNOWN_OPERATIONS = -2147483648
"""The value of `*_authorized_operations` when they were not asked for."""


@struct
class MetadataRequestTopic:
    topic_id: UUID = field("10+", default=ZERO_UUID)
    name: str | None = field(nullable="10+")


@message(key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    """`topics` None means all topics; in version 0, which knows no null, an empty list does.

    librdkafka 2.3 to 2.16 ask for all topics with three bytes too many from version 9 on; they are ignored.
    """

    topics: list[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: bool = field("4+", default=True)
    include_cluster_authorized_operations: bool = field("8-10", default=False)
    include_topic_authorized_operations: bool = field("8+", default=False)


@struct
class MetadataResponseBroker:
    node_id: int32
    host: str
    port: int32
    rack: str | None = field("1+", nullable="1+", default=None)


@struct
class MetadataResponsePartition:
    error_code: int16 = 0
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = field("7+", default=-1)
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    offline_replicas: list[int32] = field("5+", default_factory=list)


@struct
class MetadataResponseTopic:
    error_code: int16 = 0
    name: str | None = field(nullable="12+")
    topic_id: UUID = field("10+", default=ZERO_UUID)
    is_internal: bool = field("1+", default=False)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: int32 = field("8+", default=UNKNOWN_OPERATIONS)


@message(key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    throttle_time_ms: int32 = field("3+", default=0)
    brokers: list[MetadataResponseBroker]
    cluster_id: str | None = field("2+", nullable="2+", default=None)
    controller_id: int32 = field("1+", default=-1)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: int32 = field("8-10", default=UNKNOWN_OPERATIONS)
    error_code: int16 = field("13+", default=0)
