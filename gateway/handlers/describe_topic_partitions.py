"""DescribeTopicPartitions: topics in the order of their names, page by page (KIP-966)."""

from typing import Final

from capture.log import Topic
from gateway.context import Context
from gateway.topics.lookup import TOPIC_OPERATIONS, topic_by_name
from gateway.topics.names import check_name
from protocol.errors import KafkaError
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

MAX_PARTITIONS: Final = 2000
"""Of one page; Kafka's `max.request.partition.size.limit`."""


def handle(request: DescribeTopicPartitionsRequest, context: Context) -> DescribeTopicPartitionsResponse:
    """One page, beginning at the cursor; `next_cursor` is where the next one begins."""
    names = sorted({topic.name for topic in request.topics} or context.reader.topics)
    first_name, first_index = "", 0
    if request.cursor is not None:
        first_name, first_index = request.cursor.topic_name, max(request.cursor.partition_index, 0)
    left = min(max(request.response_partition_limit, 1), MAX_PARTITIONS)
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        if name < first_name:
            continue
        start = first_index if name == first_name else 0
        try:
            check_name(name)
            topic = topic_by_name(context.reader, name)
        except KafkaError as error:
            response.topics.append(
                DescribeTopicPartitionsResponseTopic(error_code=error.code, name=name, partitions=[])
            )
            continue
        if left <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        response.topics.append(_known(topic, start, start + left, context.node_id))
        left -= max(len(topic.partitions) - start, 0)
        if left < 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=len(topic.partitions) + left)
            break
    return response


def _known(topic: Topic, start: int, stop: int, me: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=partition.index,
                leader_id=me,
                leader_epoch=partition.leader_epoch,
                replica_nodes=[me],
                isr_nodes=[me],
                offline_replicas=[],
            )
            for partition in topic.partitions[start:stop]
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
