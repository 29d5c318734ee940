"""What goes into a group and what comes out: requests without their wire form, and effects."""

from dataclasses import dataclass

from gateway.groups.state import GroupState
from protocol.errors import ErrorCode

NO_GENERATION = -1
"""The generation of who is no member: a commit without membership, an answer that carries an error."""
NO_MEMBER_ID = ""
"""The member id of who has none yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A JoinGroup request."""

    member_id: str
    group_instance_id: str | None
    """Static membership (KIP-345)."""
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """Name and metadata of each assignment protocol, in the member's order of preference."""
    must_know_member_id: bool = False
    """v4+: a new dynamic member is given its id first, and joins with it (KIP-394)."""
    can_skip_assignment: bool = False
    """v9+: a static leader that comes back can be told not to assign again (KIP-814)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A SyncGroup request."""

    member_id: str
    group_instance_id: str | None
    generation_id: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    """Member id and assignment; of the leader alone."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who leaves: a member id, or only the name of a static instance (then an administrator removes it)."""

    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """What the leader is told of a member."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """Effect: answer the JoinGroup that was given this ticket."""

    ticket: int
    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    """All members, for the leader alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """Effect: answer the SyncGroup that was given this ticket."""

    ticket: int
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


Effect = JoinAnswer | SyncAnswer


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member as DescribeGroups shows it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Description:
    """A group as DescribeGroups shows it."""

    group_id: str
    state: GroupState
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """A group as ListGroups shows it; a group that only commits offsets has no protocol type."""

    group_id: str
    state: GroupState
    protocol_type: str
    members: int
