"""The answer when a whole request went wrong: an error code in every place where the response has one.

A handler answers errors itself, as narrowly as the protocol allows. This is for what it raises: a
`KafkaError` that concerns all of the request, and bugs, which become UNKNOWN_SERVER_ERROR.
"""

from collections.abc import Callable
from typing import Any, Final

from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_UNKNOWN: Final = -1


def refusal(request: Any, code: ErrorCode) -> Any | None:
    """The response with `code` for the whole of `request`; None if the API has no place for one."""
    refuse = _REFUSALS.get(type(request))
    return None if refuse is None else refuse(request, code)


def _produce(request: ProduceRequest, code: ErrorCode) -> ProduceResponse | None:
    if request.acks == 0:
        return None
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=partition.index, error_code=code)
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _fetch(request: FetchRequest, code: ErrorCode) -> FetchResponse:
    return FetchResponse(
        error_code=code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=asked.partition,
                        error_code=code,
                        high_watermark=_UNKNOWN,
                        records=b"",
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _list_offsets(request: ListOffsetsRequest, code: ErrorCode) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=code)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _metadata(request: MetadataRequest, code: ErrorCode) -> MetadataResponse:
    return MetadataResponse(
        error_code=code,
        brokers=[],
        topics=[
            MetadataResponseTopic(error_code=code, name=topic.name, topic_id=topic.topic_id, partitions=[])
            for topic in request.topics or ()
        ],
    )


def _offset_commit(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=code)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _offset_fetch(request: OffsetFetchRequest, code: ErrorCode) -> OffsetFetchResponse:
    # Before version 2 there is an error code per partition only, from version 8 on one per group.
    return OffsetFetchResponse(
        error_code=code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=_UNKNOWN, metadata="", error_code=code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
        groups=[
            OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code)
            for group in request.groups
        ],
    )


def _find_coordinator(request: FindCoordinatorRequest, code: ErrorCode) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=code,
        node_id=_UNKNOWN,
        port=_UNKNOWN,
        coordinators=[
            Coordinator(key=key, node_id=_UNKNOWN, host="", port=_UNKNOWN, error_code=code)
            for key in request.coordinator_keys
        ],
    )


def _join_group(request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, protocol_name="", leader="", member_id=request.member_id, members=[]
    )


def _describe_groups(request: DescribeGroupsRequest, code: ErrorCode) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[
            DescribedGroup(
                error_code=code,
                group_id=group,
                group_state="",
                protocol_type="",
                protocol_data="",
                members=[],
            )
            for group in request.groups
        ]
    )


def _offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, code: ErrorCode
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=asked.partition, error_code=code) for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _describe_configs(request: DescribeConfigsRequest, code: ErrorCode) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=code,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
                configs=[],
            )
            for asked in request.resources
        ]
    )


def _describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, code: ErrorCode
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=code, name=asked.name, partitions=[])
            for asked in request.topics
        ]
    )


def _delete_groups(request: DeleteGroupsRequest, code: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=name, error_code=code) for name in request.groups_names]
    )


_REFUSALS: Final[dict[type, Callable[[Any, ErrorCode], Any | None]]] = {
    ProduceRequest: _produce,
    FetchRequest: _fetch,
    ListOffsetsRequest: _list_offsets,
    MetadataRequest: _metadata,
    OffsetCommitRequest: _offset_commit,
    OffsetFetchRequest: _offset_fetch,
    FindCoordinatorRequest: _find_coordinator,
    JoinGroupRequest: _join_group,
    HeartbeatRequest: lambda request, code: HeartbeatResponse(error_code=code),
    LeaveGroupRequest: lambda request, code: LeaveGroupResponse(error_code=code),
    SyncGroupRequest: lambda request, code: SyncGroupResponse(error_code=code, assignment=b""),
    DescribeGroupsRequest: _describe_groups,
    ListGroupsRequest: lambda request, code: ListGroupsResponse(error_code=code, groups=[]),
    ApiVersionsRequest: lambda request, code: ApiVersionsResponse(error_code=code, api_keys=[]),
    InitProducerIdRequest: lambda request, code: InitProducerIdResponse(error_code=code),
    OffsetForLeaderEpochRequest: _offset_for_leader_epoch,
    DescribeConfigsRequest: _describe_configs,
    DeleteGroupsRequest: _delete_groups,
    DescribeClusterRequest: lambda request, code: DescribeClusterResponse(
        error_code=code, cluster_id="", brokers=[]
    ),
    DescribeTopicPartitionsRequest: _describe_topic_partitions,
}
