"""OffsetCommit, OffsetFetch, and what administrators ask of groups, in every version."""

import sqlite3
import uuid
from pathlib import Path

import pytest

from gateway.groups import GroupConfig
from protocol.errors import ErrorCode
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
from tests.gateway.handlers.group_offsets import commit, commit_error, fetched
from tests.gateway.handlers.group_service import ITEMS, ORDERS, GroupService, join, with_service


@pytest.mark.parametrize("version", range(11))
def test_offsets_are_committed_and_fetched_in_every_version(version: int, tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        assert await commit_error(service, version, 42) == 0
        for fetch_version in range(1, 11):
            partition = await fetched(service, fetch_version)
            assert (partition.committed_offset, partition.metadata) == (42, "note")
            if fetch_version >= 5:
                assert partition.committed_leader_epoch == (0 if version >= 6 else -1)
            nothing = await fetched(service, fetch_version, index=0)
            assert (nothing.committed_offset, nothing.metadata, nothing.error_code) == (-1, "", 0)
            assert (await fetched(service, fetch_version, group_id="nobody")).committed_offset == -1

    with_service(tmp_path, scenario)


def test_a_member_commits_with_its_generation(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        member_id = await service.member()
        assert await commit_error(service, 9, 1, member_id=member_id, generation=1) == 0
        assert (
            await commit_error(service, 9, 2, member_id=member_id, generation=2)
            == ErrorCode.ILLEGAL_GENERATION
        )
        assert await commit_error(service, 9, 3, member_id="x", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await commit_error(service, 9, 4) == ErrorCode.UNKNOWN_MEMBER_ID
        given = await service.ask(join("g"), 9)
        parked = service.begin(join("g", given.member_id), 9)
        assert await commit_error(service, 9, 5, member_id=member_id, generation=1) == 0
        await service.ask(join("g", member_id), 9)
        await parked
        code = await commit_error(service, 9, 6, member_id=member_id, generation=2)
        assert code == ErrorCode.REBALANCE_IN_PROGRESS
        assert (await fetched(service, 9)).committed_offset == 5

    with_service(tmp_path, scenario)


def test_a_replaced_static_member_commits_no_more(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        old = await service.ask(join("g", group_instance_id="one"), 5)
        await service.ask(join("g", group_instance_id="one"), 9)
        code = await commit_error(
            service, 7, 1, member_id=old.member_id, generation=1, group_instance_id="one"
        )
        assert code == ErrorCode.FENCED_INSTANCE_ID

    with_service(tmp_path, scenario)


def test_a_commit_of_a_generation_before_the_restart_is_refused(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        member_id = await service.member()
        await service.restart()
        code = await commit_error(service, 9, 1, member_id=member_id, generation=1)
        assert code == ErrorCode.ILLEGAL_GENERATION

    with_service(tmp_path, scenario)


def test_each_partition_fails_by_itself(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        def partition(index: int, metadata: str | None = "") -> OffsetCommitRequestPartition:
            return OffsetCommitRequestPartition(
                partition_index=index, committed_offset=7, committed_metadata=metadata
            )

        request = OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequestTopic(
                    name=ORDERS.name,
                    partitions=[partition(0, None), partition(1, "x" * 4097), partition(2), partition(-1)],
                ),
                OffsetCommitRequestTopic(name="no.such.topic", partitions=[partition(0)]),
                OffsetCommitRequestTopic(name=ITEMS.name, partitions=[partition(0, "x" * 4096)]),
            ],
        )
        answer = await service.ask(request, 9)
        assert [[one.error_code for one in topic.partitions] for topic in answer.topics] == [
            [
                0,
                ErrorCode.OFFSET_METADATA_TOO_LARGE,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ],
            [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            [0],
        ]
        assert (await fetched(service, 8, index=0)).metadata == ""

    with_service(tmp_path, scenario)


def test_unknown_topic_ids_are_said_to_be(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        stranger = uuid.UUID(int=99)
        request = OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequestTopic(
                    topic_id=stranger,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=1, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        answer = await service.ask(request, 10)
        assert answer.topics[0].topic_id == stranger
        assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        group = OffsetFetchRequestGroup(
            group_id="g", topics=[OffsetFetchRequestTopics(topic_id=stranger, partition_indexes=[0])]
        )
        found = await service.ask(OffsetFetchRequest(groups=[group]), 10)
        topic = found.groups[0].topics[0]
        assert topic.topic_id == stranger
        assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert topic.partitions[0].committed_offset == -1

    with_service(tmp_path, scenario)


@pytest.mark.parametrize("version", range(2, 11))
def test_everything_that_a_group_committed_is_fetched(version: int, tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        await service.ask(commit(9, 5), 9)
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=6, committed_metadata=None
        )
        items = OffsetCommitRequestTopic(name=ITEMS.name, partitions=[partition])
        await service.ask(OffsetCommitRequest(group_id="g", topics=[items]), 9)
        if version < 8:
            answer = await service.ask(OffsetFetchRequest(group_id="g", topics=None), version)
            topics = answer.topics
        else:
            group = OffsetFetchRequestGroup(group_id="g", topics=None)
            answer = await service.ask(OffsetFetchRequest(groups=[group]), version)
            topics = answer.groups[0].topics
        found = {
            (topic.topic_id if version >= 10 else topic.name): [
                (one.partition_index, one.committed_offset) for one in topic.partitions
            ]
            for topic in topics
        }
        if version >= 10:
            assert found == {ORDERS.topic_id: [(1, 5)], ITEMS.topic_id: [(0, 6)]}
        else:
            assert found == {ORDERS.name: [(1, 5)], ITEMS.name: [(0, 6)]}

    with_service(tmp_path, scenario)


def test_several_groups_are_fetched_at_once_even_the_same_one_twice(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        for number, group_id in enumerate(("a", "b")):
            await service.ask(commit(9, number, group_id=group_id), 9)
        asked = [
            OffsetFetchRequestGroup(
                group_id=group_id, topics=[OffsetFetchRequestTopics(name=ORDERS.name, partition_indexes=[1])]
            )
            for group_id in ("a", "b", "none", "a")
        ]
        answer = await service.ask(OffsetFetchRequest(groups=asked), 8)
        assert [
            (group.group_id, group.topics[0].partitions[0].committed_offset) for group in answer.groups
        ] == [("a", 0), ("b", 1), ("none", -1), ("a", 0)]

    with_service(tmp_path, scenario)


def test_committed_offsets_stand_over_a_restart(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        member_id = await service.member()
        await service.ask(commit(9, 77, member_id=member_id, generation=1), 9)
        await service.restart()
        assert (await fetched(service, 9)).committed_offset == 77

    with_service(tmp_path, scenario)


def test_a_commit_is_on_disk_when_it_is_answered(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        await service.ask(commit(9, 5), 9)
        with sqlite3.connect(tmp_path / "groups.sqlite") as connection:
            rows = connection.execute("SELECT group_id, committed_offset FROM committed_offsets").fetchall()
        connection.close()
        assert rows == [("g", 5)]

    with_service(tmp_path, scenario)


def test_a_fetch_sees_the_commits_asked_before_it(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        pending = [service.begin(commit(9, number), 9) for number in range(20)]
        assert (await fetched(service, 9)).committed_offset == 19
        assert all(one.done() for one in pending)
        assert service.coordinator.offset_commits == 20

    with_service(tmp_path, scenario)


def test_the_number_of_groups_with_offsets_is_bounded(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        assert await commit_error(service, 9, 1, group_id="a") == 0
        assert await commit_error(service, 9, 1, group_id="b") == ErrorCode.POLICY_VIOLATION
        assert await commit_error(service, 9, 2, group_id="a") == 0

    with_service(tmp_path, scenario, GroupConfig(max_offset_groups=1))


def test_old_offsets_expire_and_those_of_living_groups_do_not(tmp_path: Path) -> None:
    day_ms = 24 * 3600 * 1000

    async def scenario(service: GroupService) -> None:
        member_id = await service.member("alive")
        await service.ask(commit(9, 1, group_id="alive", member_id=member_id, generation=1), 9)
        await service.ask(commit(9, 2, group_id="gone"), 9)
        service.wall_ms += 7 * day_ms
        service.coordinator._clean_up()
        assert (await fetched(service, 9, "gone")).committed_offset == 2
        service.wall_ms += day_ms
        service.coordinator._clean_up()
        assert (await fetched(service, 9, "gone")).committed_offset == -1
        assert (await fetched(service, 9, "alive")).committed_offset == 1
        assert service.coordinator.groups_with_offsets() == ["alive"]
        # Over a restart the living group's stamp is not older than a day, so a week remains.
        await service.restart()
        service.wall_ms += 7 * day_ms
        service.coordinator._clean_up()
        assert (await fetched(service, 9, "alive")).committed_offset == 1

    with_service(tmp_path, scenario)


def test_a_broken_store_is_a_retriable_answer(tmp_path: Path) -> None:
    async def scenario(service: GroupService) -> None:
        await service.ask(commit(9, 1), 9)

        def fail(*_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        service.store.commit_all = fail  # type: ignore[method-assign]  # a disk that is full
        service.store.fetch = fail  # type: ignore[method-assign,assignment]  # the same
        assert await commit_error(service, 9, 2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        for version in range(1, 11):
            if version < 8:
                topics = [OffsetFetchRequestTopic(name=ORDERS.name, partition_indexes=[1])]
                answer = await service.ask(OffsetFetchRequest(group_id="g", topics=topics), version)
                error = answer.error_code if version >= 2 else answer.topics[0].partitions[0].error_code
            else:
                group = OffsetFetchRequestGroup(group_id="g", topics=None)
                answer = await service.ask(OffsetFetchRequest(groups=[group]), version)
                error = answer.groups[0].error_code
            assert error == ErrorCode.COORDINATOR_NOT_AVAILABLE

    with_service(tmp_path, scenario)
