"""The two traps that real clients set a coordinator: groups are not optional (7), and commits must stand (8).

Each with frames and with stock clients, one, two and five of them, that join, leave, are killed and come
back.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.config import Address, Config, GatewayConfig, LogConfig
from gateway.groups import GroupConfig
from gateway.server import Gateway
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.in_process import InProcessGateway

TOPIC = "shop.public.orders"
PARTITIONS = 5
CLIENTS = ("confluent", "kafka-python", "aiokafka")
ROOT = Path(__file__).resolve().parents[3]


class GroupGateway(InProcessGateway):
    """A gateway that allows the short sessions that a test wants, and can be restarted on its port."""

    def __init__(self, **config: int) -> None:
        super().__init__()
        self._config = GroupConfig(**{"min_session_timeout_ms": 100} | config)
        self.gateway = self._make(Address("127.0.0.1", 0))

    def restart(self) -> None:
        """End the gateway and begin another one over the same data, at the same address."""
        address = self.gateway.kafka
        self.run(self.gateway.stop())
        self.gateway = self._make(address)
        self.run(self.gateway.start(http=False))

    def _make(self, kafka: Address) -> Gateway:
        anywhere = Address("127.0.0.1", 0)
        config = Config(
            log=LogConfig(data=self.data),
            gateway=GatewayConfig(kafka=kafka, registry=anywhere, admin=anywhere),
        )
        return Gateway(config, groups=self._config)


class MemberProcess:
    """A stock client in a process of its own (`group_member.py`), and what it said."""

    def __init__(
        self, client: str, service: InProcessGateway, group: str, instance: str | None = None
    ) -> None:
        self.records: list[tuple[int, int]] = []
        self.assigned: list[int] = []
        self.errors: list[str] = []
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.gateway.groups.group_member",
                client,
                service.bootstrap,
                group,
                TOPIC,
                *([instance] if instance is not None else []),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.printed: deque[str] = deque(maxlen=20)
        """The end of its log, for a failure."""
        self._threads = [threading.Thread(target=read) for read in (self._read, self._read_log)]
        for thread in self._threads:
            thread.start()

    def leave(self) -> None:
        """Close the consumer; it leaves the group."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Let it vanish: the coordinator is told nothing."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        self._process.wait(20)
        for thread in self._threads:
            thread.join(20)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._process.stdout.close()
        self._process.stderr.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if "assigned" in event:
                self.assigned = event["assigned"]
            elif "record" in event:
                self.records.append(tuple(event["record"]))
            elif "error" in event:
                self.errors.append(event["error"])

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        self.printed.extend(self._process.stderr)

    def __repr__(self) -> str:
        ended, log = self._process.poll(), "".join(self.printed)
        return f"{ended=} {self.assigned=} {len(self.records)=} {self.errors[-2:]=}\n{log}"


class Team:
    """Several members of one group."""

    def __init__(self, service: GroupGateway, client: str) -> None:
        self.service = service
        self.client = client
        self.members: list[MemberProcess] = []
        self.gone: list[MemberProcess] = []

    def add(self, count: int = 1, instance: str | None = None) -> None:
        self.members += [MemberProcess(self.client, self.service, "team", instance) for _ in range(count)]

    def remove(self, how: Callable[[MemberProcess], None]) -> None:
        member = self.members.pop(0)
        how(member)
        self.gone.append(member)

    def close(self) -> None:
        for member in self.members:
            member.kill()

    def settled(self) -> bool:
        """Whether the members share all partitions, and each has some if there are enough."""
        shared = sorted(partition for member in self.members for partition in member.assigned)
        return shared == list(range(PARTITIONS)) and all(member.assigned for member in self.members)

    def records(self) -> Counter[tuple[int, int]]:
        """How often each record was read and committed, by anybody."""
        return Counter(record for member in self.members + self.gone for record in member.records)

    def has_read(self, end: int) -> bool:
        """Whether every record below `end` of every partition was read and committed."""
        return len(self.records()) == end * PARTITIONS

    def until(self, condition: Callable[[], bool], timeout_s: float = 40) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, (
                self.members,
                self.service.call(lambda: self.service.gateway.coordinator.describe("team")),
            )
            time.sleep(0.02)


@pytest.fixture
def service() -> Iterator[GroupGateway]:
    with GroupGateway() as service:
        yield service


def join_request(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="raw",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0")],
    )


def sync_request(
    generation: int, member_id: str, assignments: list[SyncGroupRequestAssignment] | None = None
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id="raw",
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments or [],
    )


def commit_request(offset: int, *, member_id: str = "", generation: int = -1) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id="raw",
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )


def committed(service: InProcessGateway) -> int:
    with service.client() as client:
        topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
        group = OffsetFetchRequestGroup(group_id="raw", topics=[topic])
        answer = client.ask(OffsetFetchRequest(groups=[group]), 9)
        return int(answer.groups[0].topics[0].partitions[0].committed_offset)


def test_trap_07_a_group_by_frames(service: GroupGateway) -> None:
    """The whole life of a group of two, as a client speaks it."""
    service.topic(TOPIC, partitions=PARTITIONS)
    with service.client() as one, service.client() as two:
        found = one.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["raw"]), 6).coordinators[0]
        assert (found.error_code, f"{found.host}:{found.port}") == (0, service.bootstrap)
        first = one.ask(join_request(), 9)
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        first = one.ask(join_request(first.member_id), 9)
        assert (first.error_code, first.generation_id, first.leader) == (0, 1, first.member_id)
        second_id = two.ask(join_request(), 9).member_id
        two.send(join_request(second_id), 9)
        beat = HeartbeatRequest(group_id="raw", generation_id=1, member_id=first.member_id)
        deadline = time.monotonic() + 10
        while one.ask(beat, 4).error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            assert time.monotonic() < deadline
        again = one.ask(join_request(first.member_id), 9)
        assert {member.member_id for member in again.members} == {first.member_id, second_id}
        assert two.receive().generation_id == again.generation_id == 2
        sync = sync_request(2, second_id)
        two.send(sync, 5)
        assignments = [
            SyncGroupRequestAssignment(member_id=member, assignment=member.encode())
            for member in (first.member_id, second_id)
        ]
        mine = one.ask(
            sync_request(2, first.member_id, assignments),
            5,
        )
        assert bytes(mine.assignment) == first.member_id.encode()
        assert bytes(two.receive().assignment) == second_id.encode()
        left = one.ask(LeaveGroupRequest(group_id="raw", members=[MemberIdentity(member_id=second_id)]), 5)
        assert left.members[0].error_code == 0


@pytest.mark.parametrize("client", CLIENTS)
def test_trap_07_stock_clients_join_leave_and_are_killed(service: GroupGateway, client: str) -> None:
    """One member, two, five, four, three; all partitions are shared, and no record is missed or read
    twice."""
    partitions = service.topic(TOPIC, partitions=PARTITIONS)

    def append() -> None:
        for partition in partitions:
            service.append(partition, [b"value"] * 4)

    team = Team(service, client)
    try:
        append()
        team.add()
        team.until(lambda: team.settled() and team.has_read(4))
        team.add()
        team.until(team.settled)
        append()
        team.until(lambda: team.has_read(8))
        team.add(3)
        team.until(team.settled)
        append()
        team.until(lambda: team.has_read(12))
        assert all(member.records for member in team.members), "each of five has read of its own partition"
        team.remove(MemberProcess.leave)
        team.until(team.settled)
        append()
        team.until(lambda: team.has_read(16))
        team.remove(MemberProcess.kill)
        team.until(team.settled)
        append()
        team.until(lambda: team.has_read(20))
        assert {record: count for record, count in team.records().items() if count > 1} == {}
    finally:
        team.close()


def test_trap_07_a_static_member_comes_back_without_a_rebalance(service: GroupGateway) -> None:
    partitions = service.topic(TOPIC, partitions=PARTITIONS)
    for partition in partitions:
        service.append(partition, [b"value"] * 2)
    team = Team(service, "confluent")

    def generation() -> int:
        group = service.gateway.coordinator._groups.get("team")
        assert group is not None
        return group.generation_id

    try:
        team.add(instance="one")
        team.until(lambda: team.settled() and team.has_read(2))
        before = service.call(generation)
        team.remove(MemberProcess.kill)
        team.add(instance="one")
        for partition in partitions:
            service.append(partition, [b"value"] * 2)
        team.until(lambda: team.settled() and team.has_read(4))
        assert service.call(generation) == before
    finally:
        team.close()


def test_trap_08_commits_by_frames_with_and_without_membership(service: GroupGateway) -> None:
    """A commit is stored when it is answered, whoever makes it, and stands over a restart."""
    service.topic(TOPIC)
    with service.client() as client:
        assert client.ask(commit_request(5), 9).topics[0].partitions[0].error_code == 0
    assert committed(service) == 5
    service.restart()
    assert committed(service) == 5
    with service.client() as client:
        joined = client.ask(join_request(), 3)
        code = client.ask(commit_request(6), 9).topics[0].partitions[0].error_code
        assert code == ErrorCode.UNKNOWN_MEMBER_ID
        client.ask(sync_request(1, joined.member_id), 5)
        mine = commit_request(7, member_id=joined.member_id, generation=1)
        assert client.ask(mine, 9).topics[0].partitions[0].error_code == 0
        service.restart()
    with service.client() as client:
        # The member that outlived the gateway is told to join again, and its place is kept.
        beat = HeartbeatRequest(group_id="raw", generation_id=1, member_id=joined.member_id)
        assert client.ask(beat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        code = client.ask(mine, 9).topics[0].partitions[0].error_code
        assert code == ErrorCode.UNKNOWN_MEMBER_ID
    assert committed(service) == 7


@pytest.mark.parametrize("client", CLIENTS)
def test_trap_08_stock_clients_go_on_where_they_committed(service: GroupGateway, client: str) -> None:
    """Over a restart of the consumer, and over one of the gateway while it runs: nothing is read twice."""
    partitions = service.topic(TOPIC, partitions=PARTITIONS)

    def append() -> None:
        for partition in partitions:
            service.append(partition, [b"value"] * 3)

    team = Team(service, client)
    try:
        append()
        team.add()
        team.until(lambda: team.has_read(3))
        team.remove(MemberProcess.leave)
        append()
        team.add()
        team.until(lambda: team.has_read(6))
        service.restart()
        append()
        team.until(lambda: team.has_read(9))
        assert {record: count for record, count in team.records().items() if count > 1} == {}
    finally:
        team.close()
