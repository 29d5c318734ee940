"""Limits and delays of consumer groups."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Kafka's broker settings of the same meaning in parentheses; its defaults unless a reason is given."""

    min_session_timeout_ms: int = 6_000
    """(group.min.session.timeout.ms)"""
    max_session_timeout_ms: int = 1_800_000
    """(group.max.session.timeout.ms)"""
    initial_rebalance_delay_ms: int = 500
    """How long the first rebalance of an empty group waits for more members
    (group.initial.rebalance.delay.ms).

    Kafka waits 3 s so that a large application that starts at once settles in one generation. Readers of
    change topics are few, and what counts is the time to the first change; members that come later are taken
    in at the others' next heartbeat, which is 3 s away by default too. Not 0, because kafka-python joins
    before it has its topics' metadata: without any delay it joins a second time at once, and one start in
    some thirty then hangs for good (3.0.12, with Apache Kafka as well as here).
    """
    new_member_join_timeout_ms: int = 300_000
    """A JoinGroup of a member that has no answer yet is given up after this long (a constant in Kafka)."""
    max_members: int = 1_000
    """Members of one group (group.max.size; unbounded in Kafka, where memory is the operator's concern)."""
    max_groups: int = 10_000
    """Groups with members, or whose members left lately, at a time. Groups that only commit offsets are not
    held here."""
    max_offset_groups: int = 10_000
    """Groups that have committed offsets."""
    max_group_bytes: int = 4 * 1024 * 1024
    """What is held of one group in memory, mostly the metadata and assignments of its members (in Kafka a
    group's record is bounded by message.max.bytes, 1 MiB)."""
    max_held_bytes: int = 64 * 1024 * 1024
    """The same of all groups together; above it nobody new is taken in."""
    offset_metadata_max_bytes: int = 4096
    """The text that goes with a committed offset (offset.metadata.max.bytes)."""
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    """How long the offsets of a group without members are kept (offsets.retention.minutes); −1 keeps them for
    ever."""
    offsets_retention_check_interval_ms: int = 600_000
    """(offsets.retention.check.interval.ms)"""

    def __post_init__(self) -> None:
        if self.min_session_timeout_ms <= 0 or self.max_session_timeout_ms < self.min_session_timeout_ms:
            raise ValueError(
                "session timeouts: 0 < min_session_timeout_ms <= max_session_timeout_ms is required"
            )
        if self.initial_rebalance_delay_ms < 0:
            raise ValueError("initial_rebalance_delay_ms must not be negative")
        for name in (
            "max_members",
            "max_groups",
            "max_offset_groups",
            "max_group_bytes",
            "max_held_bytes",
            "offsets_retention_check_interval_ms",
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive")
        if self.offset_metadata_max_bytes < 0:
            raise ValueError("offset_metadata_max_bytes must not be negative")
        if self.offsets_retention_ms < -1:
            raise ValueError(
                "offsets_retention_ms is a number of milliseconds, or -1 to keep offsets for ever"
            )
