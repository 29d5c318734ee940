"""Metadata: the one broker, and the virtual topics; all, by name, or by id. Topics are never created here.

A client must not see a topic vanish that exists: Materialize takes a single "unknown topic", or an empty
partition list, for a deletion and gives the source up for good.
"""

from typing import Final

from capture.log import Topic
from gateway.context import Context
from gateway.topics.lookup import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, topic_by_id, topic_by_name
from gateway.topics.names import check_name
from protocol.errors import KafkaError
from protocol.messages.metadata import (
    UNKNOWN_OPERATIONS,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_NULL_MEANS_ALL: Final = 1
"""Before this version, which has no null, an empty list means all topics."""


def handle(request: MetadataRequest, context: Context) -> MetadataResponse:
    """Describe what was asked for, in the order asked."""
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else UNKNOWN_OPERATIONS
    asked = request.topics
    if asked is None or (not asked and context.api_version < _NULL_MEANS_ALL):
        topics = [_known(topic, context, operations) for topic in context.reader.topics.values()]
    else:
        distinct = {(topic.name, topic.topic_id): topic for topic in asked}
        topics = [_asked(topic, context, operations) for topic in distinct.values()]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=context.node_id, host=context.advertised_host, port=context.advertised_port
            )
        ],
        cluster_id=context.cluster_id,
        controller_id=context.node_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else UNKNOWN_OPERATIONS
        ),
    )


def _asked(asked: MetadataRequestTopic, context: Context, operations: int) -> MetadataResponseTopic:
    try:
        if asked.name is None:
            topic = topic_by_id(context.reader, asked.topic_id)
        else:
            check_name(asked.name)
            topic = topic_by_name(context.reader, asked.name)
    except KafkaError as error:
        return MetadataResponseTopic(
            error_code=error.code, name=asked.name, topic_id=asked.topic_id, partitions=[]
        )
    return _known(topic, context, operations)


def _known(topic: Topic, context: Context, operations: int) -> MetadataResponseTopic:
    me = context.node_id
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            MetadataResponsePartition(
                partition_index=partition.index,
                leader_id=me,
                leader_epoch=partition.leader_epoch,
                replica_nodes=[me],
                isr_nodes=[me],
            )
            for partition in topic.partitions
        ],
        topic_authorized_operations=operations,
    )
