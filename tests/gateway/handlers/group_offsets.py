"""Commits and fetches of one partition, in the form of each version."""

from typing import Any

from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.gateway.handlers.group_service import ORDERS, GroupService


def commit(
    version: int,
    offset: int,
    *,
    group_id: str = "g",
    member_id: str = "",
    generation: int = -1,
    **kwargs: Any,
) -> OffsetCommitRequest:
    """A commit of the orders' second partition, in the form of this version."""
    partition = OffsetCommitRequestPartition(
        partition_index=1,
        committed_offset=offset,
        committed_leader_epoch=0 if version >= 6 else -1,
        committed_metadata=kwargs.pop("metadata", "note"),
    )
    if version >= 10:
        topic = OffsetCommitRequestTopic(topic_id=ORDERS.topic_id, partitions=[partition])
    else:
        topic = OffsetCommitRequestTopic(name=ORDERS.name, partitions=[partition])
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[topic],
        **kwargs,
    )


async def commit_error(service: GroupService, version: int, *args: Any, **kwargs: Any) -> int:
    answer = await service.ask(commit(version, *args, **kwargs), version)
    return int(answer.topics[0].partitions[0].error_code)


async def fetched(service: GroupService, version: int, group_id: str = "g", index: int = 1) -> Any:
    """The answer for one partition of the orders."""
    if version < 8:
        topics = [OffsetFetchRequestTopic(name=ORDERS.name, partition_indexes=[index])]
        answer = await service.ask(OffsetFetchRequest(group_id=group_id, topics=topics), version)
        assert answer.error_code == 0
        return answer.topics[0].partitions[0]
    asked = OffsetFetchRequestTopics(partition_indexes=[index])
    if version >= 10:
        asked.topic_id = ORDERS.topic_id
    else:
        asked.name = ORDERS.name
    group = OffsetFetchRequestGroup(group_id=group_id, topics=[asked])
    answer = await service.ask(OffsetFetchRequest(groups=[group], require_stable=True), version)
    assert answer.groups[0].error_code == 0
    return answer.groups[0].topics[0].partitions[0]
