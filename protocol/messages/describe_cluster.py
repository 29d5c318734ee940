"""DescribeCluster (60): cluster id and brokers, for administration (KIP-700)."""

from protocol.message import field, int8, int16, int32, message, struct
from protocol.messages.metadata import UNKNOWN_OPERATIONS

BROKERS = 1
"""The endpoint type of brokers; 2 is that of controllers (KIP-919)."""


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = False
    endpoint_type: int8 = field("1+", default=BROKERS)
    include_fenced_brokers: bool = field("2+", default=False)


@struct
class DescribeClusterBroker:
    broker_id: int32
    host: str
    port: int32
    rack: str | None = field(nullable="0+", default=None)
    is_fenced: bool = field("2+", default=False)


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = field(nullable="0+", default=None)
    endpoint_type: int8 = field("1+", default=BROKERS)
    cluster_id: str
    controller_id: int32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: int32 = UNKNOWN_OPERATIONS
