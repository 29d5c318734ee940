"""The members of a group, its leader, and the protocols that all of them speak.

Invariants: every static instance names a present member; the leader is a present member, or None and there is
none; `held_bytes` is the sum over the members.
"""

from collections import Counter

from gateway.groups.member import Member
from gateway.groups.messages import Join


class Roster:
    """Members in the order in which they came."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.leader_id: str | None = None
        self.held_bytes = 0
        self._static: dict[str, str] = {}
        self._speakers: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self.members

    def static_member_id(self, group_instance_id: str | None) -> str | None:
        """The member id behind a static instance's name."""
        return None if group_instance_id is None else self._static.get(group_instance_id)

    def add(self, member: Member) -> None:
        """Take a new member in; the first one leads."""
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self._static[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._count(member, 1)

    def remove(self, member_id: str) -> Member | None:
        """Drop a member; if it led, the one that came first of the others leads."""
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count(member, -1)
        if member.group_instance_id is not None:
            del self._static[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace(self, old_member_id: str, new_member_id: str) -> Member:
        """Give a static member a new id; everything else of it stays, leadership included."""
        member = self.members.pop(old_member_id)
        self.held_bytes += len(new_member_id) - len(old_member_id)
        member.member_id = new_member_id
        self.members[new_member_id] = member
        assert member.group_instance_id is not None
        self._static[member.group_instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        return member

    def update(self, member: Member, join: Join) -> None:
        """Take over what a member's new JoinGroup says of it."""
        self._count(member, -1)
        member.protocols = join.protocols
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.session_timeout_ms = join.session_timeout_ms
        self._count(member, 1)

    def assign(self, member: Member, assignment: bytes) -> None:
        """Set a member's assignment."""
        self.held_bytes += len(assignment) - len(member.assignment)
        member.assignment = assignment

    def supports_any(self, names: list[str]) -> bool:
        """Whether every member speaks one of these protocols."""
        return any(self._speakers[name] == len(self.members) for name in names)

    def select_protocol(self) -> str:
        """The protocol of the next generation: each member votes for the one it likes best of those all
        speak."""
        candidates = {name for name, speakers in self._speakers.items() if speakers == len(self.members)}
        votes = Counter(
            vote for member in self.members.values() if (vote := member.vote(candidates)) is not None
        )
        return votes.most_common(1)[0][0]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of the members' rebalance timeouts."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _count(self, member: Member, sign: int) -> None:
        self.held_bytes += sign * member.held_bytes
        for name in {name for name, _ in member.protocols}:
            self._speakers[name] += sign
            if not self._speakers[name]:
                del self._speakers[name]
