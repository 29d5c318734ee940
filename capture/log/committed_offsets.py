"""Offsets that consumer groups committed, in a file of their own: they never wait for a capture's commit.

Durable when a commit returns (`synchronous=FULL`), so a commit that was answered survives a power cut too.
Commits that arrive together share one transaction, and so one sync: see `commit_all`.
"""

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from capture.log.database import Database
from capture.log.layout import GROUPS, lock_path

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS committed_offsets (
    group_id TEXT NOT NULL,
    topic_id BLOB NOT NULL,
    partition_index INTEGER NOT NULL,
    committed_offset INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    metadata TEXT,
    committed_ms INTEGER NOT NULL,
    PRIMARY KEY (group_id, topic_id, partition_index)
) WITHOUT ROWID
"""

PartitionKey = tuple[uuid.UUID, int]


class CommittedOffset(NamedTuple):
    """A group's place in a partition; `committed_ms` since 1970."""

    offset: int
    leader_epoch: int
    metadata: str | None
    committed_ms: int


class CommittedOffsets:
    """The committed offsets of all groups, by topic id and partition index."""

    def __init__(self, data: Path) -> None:
        self._database = Database(
            data / GROUPS, lock=lock_path(data, "database", "groups"), synchronous="FULL", create=True
        )
        self._database.connection().execute(_SCHEMA)

    def commit(
        self, group: str, offsets: Mapping[PartitionKey, tuple[int, int, str | None]], now_ms: int
    ) -> None:
        """Store (offset, leader_epoch, metadata) for each partition, all or none."""
        self.commit_all([(group, offsets)], now_ms)

    def commit_all(
        self,
        commits: Iterable[tuple[str, Mapping[PartitionKey, tuple[int, int, str | None]]]],
        now_ms: int,
    ) -> None:
        """Store the commits of several groups in one transaction; a later one of a group wins."""
        with self._database.write() as connection:
            for group, offsets in commits:
                connection.executemany(
                    "INSERT OR REPLACE INTO committed_offsets VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [
                        (group, topic_id.bytes, index, offset, leader_epoch, metadata, now_ms)
                        for (topic_id, index), (offset, leader_epoch, metadata) in offsets.items()
                    ],
                )

    def fetch(
        self, group: str, partitions: Iterable[PartitionKey] | None = None
    ) -> dict[PartitionKey, CommittedOffset]:
        """What a group committed, for `partitions` or for all; those without a commit are left out."""
        rows = self._database.connection().execute(
            "SELECT topic_id, partition_index, committed_offset, leader_epoch, metadata, committed_ms "
            "FROM committed_offsets WHERE group_id = ?",
            (group,),
        )
        found = {(uuid.UUID(bytes=row[0]), row[1]): CommittedOffset(*row[2:]) for row in rows}
        if partitions is None:
            return found
        return {key: found[key] for key in partitions if key in found}

    def groups(self) -> list[str]:
        """The groups that have a committed offset."""
        rows = self._database.connection().execute(
            "SELECT DISTINCT group_id FROM committed_offsets ORDER BY group_id"
        )
        return [row[0] for row in rows]

    def delete(self, group: str, partitions: Iterable[PartitionKey] | None = None) -> None:
        """Forget what a group committed, for `partitions` or altogether."""
        with self._database.write() as connection:
            if partitions is None:
                connection.execute("DELETE FROM committed_offsets WHERE group_id = ?", (group,))
                return
            connection.executemany(
                "DELETE FROM committed_offsets WHERE group_id = ? AND topic_id = ? AND partition_index = ?",
                [(group, topic_id.bytes, index) for topic_id, index in partitions],
            )

    def close(self) -> None:
        """Close the file."""
        self._database.close()
