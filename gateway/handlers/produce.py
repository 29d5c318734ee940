"""Produce: advertised, because librdkafka fetches from no broker that lacks it, and always refused.

POLICY_VIOLATION with a sentence is the one answer at which every producer gives up at once, and most of them
print the sentence; "not leader" and the like are retried for minutes.
"""

from typing import Final

from gateway.context import Context, Hangup
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

REFUSAL: Final = (
    "Topics here are read-only: they show the changes of a database, so write to the database instead."
)


def handle(request: ProduceRequest, context: Context) -> ProduceResponse:
    """Refuse each partition. With acks=0 no answer is expected, and Kafka tells of an error by closing."""
    if request.acks == 0:
        raise Hangup("a Produce with acks=0, and " + REFUSAL)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=partition.index,
                        error_code=ErrorCode.POLICY_VIOLATION,
                        error_message=REFUSAL,
                    )
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
