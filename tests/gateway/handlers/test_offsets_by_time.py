"""ListOffsets and OffsetForLeaderEpoch: from a time or an epoch to an offset."""

from collections.abc import Iterator
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.in_process import InProcessGateway

TOPIC = "shop.public.orders"


@pytest.fixture(scope="module")
def service() -> Iterator[InProcessGateway]:
    with InProcessGateway() as service:
        full, _empty = service.topic(TOPIC, partitions=2)
        service.append(full, [b"a", b"b", b"c"], timestamp_ms=1_000)
        service.append(full, [b"d", b"e"], timestamp_ms=5_000)
        service.append(full, [b"f"], timestamp_ms=3_000)
        yield service


def listed(service: InProcessGateway, timestamp: int, version: int = 7, index: int = 0, **fields: Any) -> Any:
    asked = ListOffsetsPartition(partition_index=index, timestamp=timestamp, **fields)
    request = ListOffsetsRequest(
        topics=[ListOffsetsTopic(name=fields.pop("name", TOPIC), partitions=[asked])]
    )
    with service.client() as client:
        return client.ask(request, version).topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 12))
def test_latest_and_earliest(service: InProcessGateway, version: int) -> None:
    latest = listed(service, -1, version)
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, 6, -1)
    assert latest.leader_epoch == (0 if version >= 4 else -1)
    assert listed(service, -2, version).offset == 0
    assert listed(service, -1, version, index=1).offset == 0


@pytest.mark.parametrize(
    ("timestamp", "offset", "found"),
    [(0, 0, 1_000), (1_000, 0, 1_000), (1_001, 1, 1_001), (1_003, 3, 5_000), (5_001, 4, 5_001)],
)
def test_the_first_record_not_older(
    service: InProcessGateway, timestamp: int, offset: int, found: int
) -> None:
    answer = listed(service, timestamp)
    assert (answer.error_code, answer.offset, answer.timestamp, answer.leader_epoch) == (0, offset, found, 0)


def test_where_there_is_no_such_record(service: InProcessGateway) -> None:
    for answer in (listed(service, 5_002), listed(service, 0, index=1), listed(service, -3, index=1)):
        assert (answer.error_code, answer.offset, answer.timestamp) == (0, -1, -1)
        assert answer.leader_epoch == -1


def test_the_newest_record(service: InProcessGateway) -> None:
    for version in range(7, 12):
        answer = listed(service, -3, version)
        assert (answer.error_code, answer.offset, answer.timestamp) == (0, 4, 5_001)
    assert listed(service, -3, 6).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("timestamp", [-4, -5, -6, -7, -100, -(1 << 63)])
def test_other_negative_timestamps_are_errors_and_never_an_offset(
    service: InProcessGateway, timestamp: int
) -> None:
    for version in (1, 8, 11):
        answer = listed(service, timestamp, version)
        tiered = timestamp in (-4, -5, -6)
        assert answer.error_code == (ErrorCode.UNSUPPORTED_VERSION if tiered else ErrorCode.INVALID_REQUEST)
        assert answer.offset == -1


def test_each_partition_has_an_error_of_its_own(service: InProcessGateway) -> None:
    partitions = [
        ListOffsetsPartition(partition_index=0, timestamp=-1),
        ListOffsetsPartition(partition_index=9, timestamp=-1),
        ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=4),
    ]
    request = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(name=TOPIC, partitions=partitions),
            ListOffsetsTopic(name="nobody", partitions=partitions[:1]),
        ]
    )
    with service.client() as client:
        topics = client.ask(request, 9).topics
    assert [one.error_code for topic in topics for one in topic.partitions] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_where_the_epoch_ends(service: InProcessGateway, version: int) -> None:
    def ask(epoch: int, *, current: int = -1, index: int = 0, name: str = TOPIC) -> tuple[int, int, int]:
        partition = OffsetForLeaderPartition(
            partition=index, current_leader_epoch=current, leader_epoch=epoch
        )
        request = OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic=name, partitions=[partition])]
        )
        with service.client() as client:
            answer = client.ask(request, version).topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert ask(0) == (0, 0, 6)
    assert ask(0, current=0) == (0, 0, 6)
    assert ask(5) == (0, -1, -1)
    assert ask(-1) == (0, -1, -1)
    assert ask(0, current=3) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert ask(0, index=8) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert ask(0, name="nobody") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
