"""A member of a group."""

from dataclasses import dataclass
from typing import Final

from gateway.groups.messages import Join

MEMBER_BYTES: Final = 1_000
"""What a member takes beside its texts and bytes."""


def protocols_bytes(protocols: tuple[tuple[str, bytes], ...]) -> int:
    """Bytes of the protocols' names and metadata."""
    return sum(len(name) + len(metadata) for name, metadata in protocols)


@dataclass(slots=True, kw_only=True)
class Member:
    """One consumer's membership, as long as its member id lives."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    is_new: bool = True
    """No JoinGroup of this member was answered yet, so it does not know that it should send heartbeats."""
    expires_ms: int | None = None
    """When it is dropped unless it is heard of before; None while an answer is owed to it."""

    @classmethod
    def of(cls, join: Join, member_id: str) -> "Member":
        """The member that this request makes, under the id that it is given."""
        return cls(
            member_id=member_id,
            group_instance_id=join.group_instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            session_timeout_ms=join.session_timeout_ms,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            protocols=join.protocols,
        )

    @property
    def held_bytes(self) -> int:
        """What it takes of memory, about: its names, its metadata, its assignment."""
        names = len(self.member_id) + len(self.group_instance_id or "") + len(self.client_id)
        return MEMBER_BYTES + names + len(self.assignment) + protocols_bytes(self.protocols)

    def vote(self, candidates: set[str]) -> str | None:
        """The candidate that this member likes best."""
        return next((name for name, _ in self.protocols if name in candidates), None)

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's metadata for this protocol; empty if it does not speak it."""
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")
