"""One of two that are asked the same, all that it answered, and the requests that they are asked."""

import dataclasses
import enum
import re
import time
import uuid
from collections.abc import Callable
from typing import Any

from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.in_process import RawClient

TOPIC = "shop.public.orders"
STRANGER = uuid.UUID(int=0x1234)
METADATA = b"\0\0\0\0\0\1\0\x12shop.public.orders\xff\xff\xff\xff"
_MEMBER_ID = re.compile(r"[\w-]*[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Peer:
    """One of the two, and all that it answered."""

    def __init__(self, name: str, address: tuple[str, int]) -> None:
        self.name = name
        self.address = address
        self.topic_id = uuid.UUID(int=0)
        self.transcript: list[Any] = []
        self._clients: dict[str, RawClient] = {}
        self._numbers: dict[str, str] = {}

    def ask(self, client: str, request: Any, version: int) -> Any:
        """Send, receive, note."""
        self.send(client, request, version)
        return self.receive(client)

    def send(self, client: str, request: Any, version: int) -> None:
        if client not in self._clients:
            self._clients[client] = RawClient(self.address)
        self._clients[client].send(request, version)
        self._version = version

    def receive(self, client: str) -> Any:
        answer = self._clients[client].receive()
        self.transcript.append((type(answer).__name__, self._plain(answer)))
        return answer

    def disconnect(self, client: str) -> None:
        self._clients.pop(client).socket.close()

    def until(self, client: str, request: Any, version: int, condition: Callable[[Any], bool]) -> Any:
        """Ask until it holds; only the last answer is noted."""
        deadline = time.monotonic() + 20
        while True:
            noted = len(self.transcript)
            answer = self.ask(client, request, version)
            if condition(answer):
                return answer
            del self.transcript[noted:]
            assert time.monotonic() < deadline, answer
            time.sleep(0.01)

    def close(self) -> None:
        for client in self._clients.values():
            client.socket.close()
        self._clients.clear()

    def _plain(self, value: Any) -> Any:
        """The value without what must differ: numbered member ids, no texts, members by id."""
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {
                field.name: self._plain(getattr(value, field.name))
                for field in dataclasses.fields(value)
                if field.name not in ("error_message", "unknown_tagged_fields", "authorized_operations")
            }
        if isinstance(value, list):
            parts = [self._plain(part) for part in value]
            return sorted(parts, key=repr) if parts and "member_id" in repr(parts[0]) else parts
        if isinstance(value, uuid.UUID):
            return "the topic" if value == self.topic_id else str(value)
        if isinstance(value, str) and _MEMBER_ID.fullmatch(value):
            return self._numbers.setdefault(value, f"member {len(self._numbers) + 1}")
        if isinstance(value, enum.IntEnum):
            return int(value)
        return bytes(value) if isinstance(value, memoryview) else value


def join_of(
    group: str, member_id: str = "", *, session_ms: int = 30_000, rebalance_ms: int = 30_000, **fields: Any
) -> JoinGroupRequest:
    protocols = fields.pop("protocols", [("range", METADATA)])
    return JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        protocol_type=fields.pop("protocol_type", "consumer"),
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        **fields,
    )


def sync_of(group: str, generation: int, member_id: str, **fields: Any) -> SyncGroupRequest:
    assignments = [
        SyncGroupRequestAssignment(member_id=to, assignment=what)
        for to, what in fields.pop("assignments", {}).items()
    ]
    protocol = {"protocol_type": "consumer", "protocol_name": "range"} | fields
    return SyncGroupRequest(
        group_id=group, generation_id=generation, member_id=member_id, assignments=assignments, **protocol
    )


def beat_of(group: str, generation: int, member_id: str, **fields: Any) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id, **fields)


def commit_of(
    group: str, offset: int, generation: int = -1, member_id: str = "", **fields: Any
) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=fields.pop("partition", 0),
        committed_offset=offset,
        committed_metadata=fields.pop("metadata", "m"),
    )
    topic = OffsetCommitRequestTopic(
        name=fields.pop("topic", TOPIC),
        topic_id=fields.pop("topic_id", uuid.UUID(int=0)),
        partitions=[partition],
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[topic],
        **fields,
    )


def leave_of(group: str, *members: tuple[str, str | None]) -> LeaveGroupRequest:
    return LeaveGroupRequest(
        group_id=group,
        members=[MemberIdentity(member_id=one, group_instance_id=instance) for one, instance in members],
    )


def stable(peer: Peer, client: str, group: str, version: int = 9, **fields: Any) -> str:
    """Become a stable group's only member."""
    first = peer.ask(client, join_of(group, **fields), version)
    if first.error_code == 79:
        first = peer.ask(client, join_of(group, first.member_id, **fields), version)
    assert first.error_code == 0
    member = str(first.member_id)
    peer.ask(client, sync_of(group, first.generation_id, member, assignments={member: b"all"}), 3)
    return member


def pair(peer: Peer, group: str, **fields: Any) -> tuple[str, str]:
    """A stable group of two, "a" leading and "b"; in generation 2."""
    first = stable(peer, "a", group, **fields)
    second = peer.ask("b", join_of(group, **fields), 9).member_id
    peer.send("b", join_of(group, second, **fields), 9)
    peer.until("a", beat_of(group, 1, first), 4, lambda answer: answer.error_code == 27)
    peer.ask("a", join_of(group, first, **fields), 9)
    peer.receive("b")
    peer.send("b", sync_of(group, 2, second), 5)
    peer.ask("a", sync_of(group, 2, first, assignments={first: b"0", second: b"1"}), 5)
    peer.receive("b")
    return first, second
