"""The group handlers over a real coordinator and a real store, asked in any version without a socket.

Requests and responses go through the codec both ways, so a field that a version lacks is lacking here too.
"""

import asyncio
import itertools
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from capture.log import CommittedOffsets, PartitionRow, Topic
from gateway.context import ClientInfo, Later
from gateway.groups import Coordinator, GroupConfig
from gateway.handlers import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_fetch,
    sync_group,
)
from protocol import message
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

HANDLERS: dict[type, Callable[[Any, Any], Any]] = {
    DeleteGroupsRequest: delete_groups.handle,
    DescribeGroupsRequest: describe_groups.handle,
    FindCoordinatorRequest: find_coordinator.handle,
    HeartbeatRequest: heartbeat.handle,
    JoinGroupRequest: join_group.handle,
    LeaveGroupRequest: leave_group.handle,
    ListGroupsRequest: list_groups.handle,
    OffsetCommitRequest: offset_commit.handle,
    OffsetFetchRequest: offset_fetch.handle,
    SyncGroupRequest: sync_group.handle,
}

ORDERS = Topic(
    topic_id=uuid.UUID(int=11),
    name="shop.public.orders",
    capture="shop",
    partitions=tuple(PartitionRow(index + 1, index, 0, 0, 100, 0, 0) for index in range(2)),
    config={},
)
ITEMS = Topic(
    topic_id=uuid.UUID(int=12),
    name="shop.public.items",
    capture="shop",
    partitions=(PartitionRow(3, 0, 0, 0, 100, 0, 0),),
    config={},
)

T = TypeVar("T")


class GroupService:
    """One coordinator over one data directory; `restart` makes another one over the same."""

    def __init__(self, data: Path, config: GroupConfig) -> None:
        (data / "locks").mkdir(exist_ok=True)
        self.data = data
        self.config = config
        self.steady_ms = 0
        self.wall_ms = 1_700_000_000_000
        self.topics = {topic.name: topic for topic in (ORDERS, ITEMS)}
        self.reader = SimpleNamespace(
            topics=self.topics, topics_by_id={topic.topic_id: topic for topic in (ORDERS, ITEMS)}
        )

    async def start(self) -> None:
        ids = itertools.count(1)
        self.store = CommittedOffsets(self.data)
        self.coordinator = Coordinator(
            self.store,
            self.config,
            topic_id=lambda name: self.topics[name].topic_id if name in self.topics else None,
            wall_ms=lambda: self.wall_ms,
            new_id=lambda: str(next(ids)),
        )
        self.coordinator.start()

    async def close(self) -> None:
        await self.coordinator.close()
        self.store.close()

    async def restart(self) -> None:
        await self.close()
        await self.start()

    def begin(self, request: object, version: int, client_id: str | None = "client") -> "asyncio.Future[Any]":
        """Ask; the future is done when the answer is there."""
        context = SimpleNamespace(
            coordinator=self.coordinator,
            reader=self.reader,
            client=ClientInfo("127.0.0.1", 4711, client_id),
            node_id=1,
            advertised_host="gateway.example",
            advertised_port=9092,
            api_version=version,
        )
        sent = message.decode(type(request), version, b"".join(message.encode(request, version)))
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def deliver(response: Any) -> None:
            received = b"".join(message.encode(response, version))
            answer.set_result(message.decode(type(response), version, received))

        response = HANDLERS[type(request)](sent, context)
        if isinstance(response, Later):
            response.then(deliver)
        else:
            deliver(response)
        return answer

    async def ask(self, request: object, version: int, client_id: str | None = "client") -> Any:
        """Ask and wait for the answer."""
        return await asyncio.wait_for(self.begin(request, version, client_id), 10)

    async def member(self, group_id: str = "g", version: int = 9) -> str:
        """Become the one and only, stable member of a group; returns the member id."""
        joined = await self.ask(join(group_id, version=version), version)
        if joined.error_code == 79:
            joined = await self.ask(join(group_id, joined.member_id, version=version), version)
        assert joined.error_code == 0, joined
        synced = await self.ask(
            SyncGroupRequest(
                group_id=group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")],
            ),
            3,
        )
        assert (synced.error_code, bytes(synced.assignment)) == (0, b"all")
        return str(joined.member_id)


def join(group_id: str, member_id: str = "", *, version: int = 9, **kwargs: Any) -> JoinGroupRequest:
    """A JoinGroup of a consumer that subscribes to the orders."""
    fields: dict[str, Any] = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000 if version else -1,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    }
    return JoinGroupRequest(group_id=group_id, member_id=member_id, **(fields | kwargs))


def sync(**kwargs: Any) -> SyncGroupRequest:
    """A SyncGroup that assumes what `join` brings about."""
    return SyncGroupRequest(**({"protocol_type": "consumer", "protocol_name": "range"} | kwargs))


SUBSCRIPTION = b"\0\0\0\0\0\1\0\x12shop.public.orders\xff\xff\xff\xff"


def with_service(
    data: Path, scenario: Callable[[GroupService], Awaitable[T]], config: GroupConfig | None = None
) -> T:
    """Run a scenario in a loop of its own, with a service that is closed at the end."""

    async def main() -> T:
        service = GroupService(data, config or GroupConfig(initial_rebalance_delay_ms=0))
        await service.start()
        try:
            return await scenario(service)
        finally:
            await service.close()

    return asyncio.run(main())
