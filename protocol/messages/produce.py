"""Produce (0): declared because librdkafka fetches from no broker that lacks it; always refused."""

from uuid import UUID

from protocol.message import Records, field, int16, int32, int64, message, struct
from protocol.schema import ZERO_UUID


@struct
class PartitionProduceData:
    index: int32
    records: Records | None = field(nullable="0+")


@struct
class TopicProduceData:
    name: str = field("0-12", default="")
    topic_id: UUID = field("13+", default=ZERO_UUID)
    partition_data: list[PartitionProduceData]


@message(key=0, versions="0-13", flexible="9+")
class ProduceRequest:
    """With `acks` 0 the client expects no response at all."""

    transactional_id: str | None = field("3+", nullable="3+", default=None)
    acks: int16
    timeout_ms: int32
    topic_data: list[TopicProduceData]


@struct
class BatchIndexAndErrorMessage:
    batch_index: int32
    batch_index_error_message: str | None = field(nullable="8+", default=None)


@struct
class LeaderIdAndEpoch:
    leader_id: int32 = -1
    leader_epoch: int32 = -1


@struct
class PartitionProduceResponse:
    index: int32
    error_code: int16 = 0
    base_offset: int64 = -1
    log_append_time_ms: int64 = field("2+", default=-1)
    log_start_offset: int64 = field("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", default_factory=list)
    error_message: str | None = field("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch | None = field("10+", tag=0, default=None)


@struct
class TopicProduceResponse:
    name: str = field("0-12", default="")
    topic_id: UUID = field("13+", default=ZERO_UUID)
    partition_responses: list[PartitionProduceResponse]


@struct
class NodeEndpoint:
    node_id: int32
    host: str
    port: int32
    rack: str | None = field(nullable="10+", default=None)


@message(key=0, versions="0-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse]
    throttle_time_ms: int32 = field("1+", default=0)
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0, default_factory=list)
