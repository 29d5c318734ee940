"""The states of a classic consumer group."""

from enum import Enum


class GroupState(Enum):
    """Where a group stands in its rebalance; the value is what DescribeGroups and ListGroups print.

    In every state a request of an unknown member is answered UNKNOWN_MEMBER_ID, one of a member replaced by a
    newer instance FENCED_INSTANCE_ID, and one of another generation ILLEGAL_GENERATION.
    """

    EMPTY = "Empty"
    """No members; offsets may be committed.

    Answered: OffsetCommit without membership (generation −1), and it is stored.
    Leads out: the first JoinGroup -> PreparingRebalance; DeleteGroups or the end of the offsets' retention ->
    Dead.
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    """The members are called together; their JoinGroups are parked.

    Answered: Heartbeat and SyncGroup with REBALANCE_IN_PROGRESS; OffsetCommit is still stored, so that
    members can commit what they had before they rejoin; LeaveGroup.
    Leads out: all members have joined, or the rebalance timeout passed (who has not joined by then is
    dropped, static members excepted) -> CompletingRebalance, or Empty if nobody is left.
    """

    COMPLETING_REBALANCE = "CompletingRebalance"
    """The new generation stands; its SyncGroups are parked until the leader's brings the assignment.

    Answered: Heartbeat; JoinGroup of a member with unchanged metadata (the answer was lost: it gets it
    again); OffsetCommit with REBALANCE_IN_PROGRESS.
    Leads out: the leader's SyncGroup -> Stable; a new, changed, leaving or expired member, or SyncGroups
    missing after the rebalance timeout -> PreparingRebalance (parked SyncGroups get REBALANCE_IN_PROGRESS).
    """

    STABLE = "Stable"
    """Every member has its assignment.

    Answered: Heartbeat; SyncGroup with the assignment; OffsetCommit; JoinGroup of a follower with unchanged
    metadata, and of a static member that came back with the same protocol: neither disturbs the group.
    Leads out: a new, changed, leaving or expired member, or the leader's JoinGroup -> PreparingRebalance.
    """

    DEAD = "Dead"
    """The group was deleted, or never was: what DescribeGroups says of an unknown name.

    Answered: everything that still reaches it with COORDINATOR_NOT_AVAILABLE.
    Leads out: nothing; a later group of the same name is a new one.
    """
