"""DescribeCluster: the cluster's id and its one broker (KIP-700)."""

from gateway.context import Context
from gateway.topics.lookup import CLUSTER_OPERATIONS
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import (
    BROKERS,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from protocol.messages.metadata import UNKNOWN_OPERATIONS


def handle(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    """Describe the brokers; there are no controllers to ask for (KIP-919)."""
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="This is a broker, not a controller.",
            endpoint_type=BROKERS,
            cluster_id="",
            brokers=[],
        )
    return DescribeClusterResponse(
        cluster_id=context.cluster_id,
        controller_id=context.node_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=context.node_id, host=context.advertised_host, port=context.advertised_port
            )
        ],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else UNKNOWN_OPERATIONS
        ),
    )
