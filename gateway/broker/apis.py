"""The one table of the APIs served. ApiVersions is computed from it, so it cannot promise more than we do.

An API is served in the versions that its declaration in `protocol.messages` knows, some without the first
ones, which Kafka 4 has dropped (KIP-896) and no client in use sends. Left out on purpose: telemetry (71, 72:
clients skip it where it is missing), SASL and ACLs, transactions, KIP-848's groups, and whatever changes
topics or settings.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gateway.context import Context, ServedApi
from gateway.handlers import (
    api_versions,
    delete_groups,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)
from protocol import message
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.sync_group import SyncGroupRequest

Handler = Callable[[Any, Context], Any]
"""Maps (request, context) to the response, to a coroutine of it, or to a `gateway.context.Later` of it."""


@dataclass(frozen=True, slots=True)
class Api:
    """A request that is answered, by what, and from which version on."""

    request: type
    handle: Handler
    from_version: int = 0

    @property
    def name(self) -> str:
        """Kafka's name of the API, as in metrics: "ListOffsets"."""
        return self.request.__name__.removesuffix("Request")

    @property
    def served(self) -> ServedApi:
        """The API's key, and the first and last version answered."""
        known = message.versions(self.request)
        return ServedApi(message.api_key(self.request), max(known[0], self.from_version), known[-1])


APIS: Final = (
    Api(ProduceRequest, produce.handle),
    Api(FetchRequest, fetch.handle, from_version=4),
    Api(ListOffsetsRequest, list_offsets.handle, from_version=1),
    Api(MetadataRequest, metadata.handle),
    Api(OffsetCommitRequest, offset_commit.handle, from_version=2),
    Api(OffsetFetchRequest, offset_fetch.handle, from_version=1),
    Api(FindCoordinatorRequest, find_coordinator.handle),
    Api(JoinGroupRequest, join_group.handle),
    Api(HeartbeatRequest, heartbeat.handle),
    Api(LeaveGroupRequest, leave_group.handle),
    Api(SyncGroupRequest, sync_group.handle),
    Api(DescribeGroupsRequest, describe_groups.handle),
    Api(ListGroupsRequest, list_groups.handle),
    Api(ApiVersionsRequest, api_versions.handle),
    Api(InitProducerIdRequest, init_producer_id.handle),
    Api(OffsetForLeaderEpochRequest, offset_for_leader_epoch.handle, from_version=2),
    Api(DescribeConfigsRequest, describe_configs.handle, from_version=1),
    Api(DeleteGroupsRequest, delete_groups.handle),
    Api(DescribeClusterRequest, describe_cluster.handle),
    Api(DescribeTopicPartitionsRequest, describe_topic_partitions.handle),
)


def served() -> tuple[ServedApi, ...]:
    """What ApiVersions lists, by key."""
    return tuple(sorted(api.served for api in APIS))
