"""How long committed offsets are kept (KIP-211): for ever while their group lives, then for the retention
time.

What a group looked like before a restart of the gateway is not known after it. So the offsets of a living
group are stamped anew now and then (`REFRESHES` times per retention time), and the age of the stamp alone
decides about a group that nobody has joined since the start: it keeps its offsets for at least the retention
time after its last member left, however often the gateway was restarted meanwhile.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from capture.log import CommittedOffset
from gateway.groups.offset_thread import Partition

REFRESHES: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What is known of a group now."""

    has_members: bool = False
    empty_since_ms: int | None = None
    """Wall clock; None if nobody was in it since the start."""
    subscribed: frozenset[UUID] | None = None
    """The topics that a stable group reads; None if that is not known: then it may be any."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done with a group's offsets."""

    refresh: list[Partition]
    expired: list[Partition]


def judge(
    offsets: Mapping[Partition, CommittedOffset], life: Life, *, now_ms: int, retention_ms: int
) -> Verdict:
    """Which offsets of a group to stamp anew, and which to forget. All times on the wall clock."""
    refresh, expired = [], []
    stamp_ms = retention_ms // REFRESHES
    for partition, committed in offsets.items():
        age_ms = now_ms - committed.committed_ms
        if life.has_members:
            if life.subscribed is None or partition[0] in life.subscribed:
                if age_ms >= stamp_ms:
                    refresh.append(partition)
            elif age_ms >= retention_ms:
                expired.append(partition)
        elif life.empty_since_ms is not None:
            if min(age_ms, now_ms - life.empty_since_ms) >= retention_ms:
                expired.append(partition)
        elif age_ms >= retention_ms + stamp_ms:
            expired.append(partition)
    return Verdict(refresh, expired)
