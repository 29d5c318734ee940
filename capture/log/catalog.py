"""The catalog: topics, partitions with their watermarks, captures with position and epoch.

Invariants: a high watermark never goes back; watermarks and the position of a capture move in one
transaction, which is refused to any epoch but the newest; a topic keeps its id for as long as it exists.
`change` on a partition is the sequence number of the transaction that moved it last, `topology_version` on a
topic that of the one that made or changed it: readers ask for what changed since the number they know.
"""

import json
import sqlite3
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple

from capture.log.database import Database
from capture.log.errors import Fenced, LogError, NewerFormat, TopicExists
from capture.log.layout import check_topic_name
from capture.log.status import StatusFolder

FORMAT_VERSION: Final = 1

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS format (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS state (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    change_sequence INTEGER NOT NULL,
    topology_version INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS captures (
    name TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    position TEXT,
    updated_ms INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS topics (
    topic_id BLOB PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    capture TEXT NOT NULL,
    config TEXT NOT NULL,
    topology_version INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS topics_by_topology_version ON topics (topology_version);
CREATE TABLE IF NOT EXISTS partitions (
    partition_id INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id BLOB NOT NULL REFERENCES topics ON DELETE CASCADE,
    partition_index INTEGER NOT NULL,
    leader_epoch INTEGER NOT NULL,
    log_start_offset INTEGER NOT NULL,
    high_watermark INTEGER NOT NULL,
    segment_base_offset INTEGER NOT NULL,
    segment_bytes INTEGER NOT NULL,
    change INTEGER NOT NULL,
    UNIQUE (topic_id, partition_index)
);
CREATE INDEX IF NOT EXISTS partitions_by_change ON partitions (change);
CREATE TABLE IF NOT EXISTS schemas (
    schema_id INTEGER PRIMARY KEY AUTOINCREMENT,
    schema_type TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,
    schema TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS subjects (
    subject TEXT NOT NULL,
    version INTEGER NOT NULL,
    schema_id INTEGER NOT NULL REFERENCES schemas,
    deleted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (subject, version)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS subjects_by_schema ON subjects (schema_id);
"""

_PARTITION_COLUMNS: Final = (
    "partition_id, partition_index, leader_epoch, log_start_offset, high_watermark, "
    "segment_base_offset, segment_bytes"
)


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition as committed. The watermark stands `segment_bytes` into segment `segment_base_offset`."""

    partition_id: int
    index: int
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    segment_base_offset: int
    segment_bytes: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A virtual topic; `config` holds Kafka's topic options as text (`retention.ms`, `segment.bytes`, …)."""

    topic_id: uuid.UUID
    name: str
    capture: str
    partitions: tuple[PartitionRow, ...]
    config: Mapping[str, str]


class CaptureRow(NamedTuple):
    """A capture: `position` is its own JSON text, `state` the newest status it gave (JSON, for humans)."""

    name: str
    epoch: int
    position: str | None
    state: str
    updated_ms: int


class Watermark(NamedTuple):
    """Where a commit moves a partition's high watermark: the offset, and the byte it stands at."""

    partition_id: int
    high_watermark: int
    segment_base_offset: int
    segment_bytes: int


class State(NamedTuple):
    """What readers compare to see whether there is anything new at all."""

    change_sequence: int
    topology_version: int


class Catalog:
    """The catalog of one data directory; usable from any thread and from any number of processes."""

    def __init__(self, database: Database, status: StatusFolder) -> None:
        self.database = database
        self._status = status

    # --- topics -----------------------------------------------------------------------------------------

    def topics(self) -> list[Topic]:
        """All topics, by name."""
        with self.database.read() as connection:
            return _read_topics(connection, "", ())

    def topic(self, name: str) -> Topic | None:
        """The topic called `name`, or None."""
        with self.database.read() as connection:
            found = _read_topics(connection, "WHERE name = ?", (name,))
        return found[0] if found else None

    def create_topic(
        self, name: str, *, capture: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> Topic:
        """Create a topic, or give the one that `capture` has already.

        A `config` that differs from the stored one replaces it; None leaves it. Raises ValueError for a name
        Kafka would not allow and TopicExists for a topic of another capture.
        """
        check_topic_name(name)
        existing = self.topic(name)
        if existing is not None and existing.capture == capture and config in (None, existing.config):
            return existing
        with self.database.write() as connection:
            row = connection.execute(
                "SELECT topic_id, capture FROM topics WHERE name = ?", (name,)
            ).fetchone()
            text = json.dumps(dict(config or {}), sort_keys=True)
            if row is None:
                _insert_topic(connection, name, capture, partitions, text)
            elif row[1] != capture:
                raise TopicExists(
                    f"topic {name!r} belongs to capture {row[1]!r}, so capture {capture!r} cannot write it: "
                    f"give one of the two another topic.prefix"
                )
            elif config is not None:
                connection.execute(
                    "UPDATE topics SET config = ?, topology_version = ? WHERE topic_id = ?",
                    (text, _next(connection, "topology_version"), row[0]),
                )
            return _read_topics(connection, "WHERE name = ?", (name,))[0]

    def topics_changed_since(self, topology_version: int) -> list[Topic]:
        """The topics made or changed after `topology_version`; the cost follows their number alone."""
        with self.database.read() as connection:
            return _read_topics(connection, "WHERE topology_version > ?", (topology_version,))

    def consistent(self) -> AbstractContextManager[sqlite3.Connection]:
        """A block whose reads all see one and the same state."""
        return self.database.read()

    def topology_version(self) -> int:
        """A number that grows whenever a topic is created or changed."""
        return self.state().topology_version

    def state(self) -> State:
        """The newest change sequence and topology version."""
        row = self.database.connection().execute("SELECT change_sequence, topology_version FROM state")
        return State._make(row.fetchone())

    def changes_since(self, sequence: int) -> tuple[int, list[tuple[int, int, int]]]:
        """What moved after `sequence`: the new one, and (partition_id, log_start, high_watermark) of each."""
        newest, rows = self.changed_partitions(sequence)
        return newest, [(row.partition_id, row.log_start_offset, row.high_watermark) for row in rows]

    def changed_partitions(self, sequence: int) -> tuple[int, list[PartitionRow]]:
        """The partitions that moved after `sequence`, whole; the cost follows their number alone."""
        rows = self.database.connection().execute(
            f"SELECT {_PARTITION_COLUMNS}, change FROM partitions WHERE change > ? ORDER BY change",
            (sequence,),
        )
        found = rows.fetchall()
        return (found[-1][-1] if found else sequence), [PartitionRow(*row[:-1]) for row in found]

    # --- captures ---------------------------------------------------------------------------------------

    def captures(self) -> list[CaptureRow]:
        """All captures that ever wrote here, by name."""
        statuses = self._status.texts()
        rows = self.database.connection().execute(
            "SELECT name, epoch, position, updated_ms FROM captures ORDER BY name"
        )
        return [
            CaptureRow(name, epoch, position, statuses.get(name, "{}"), updated_ms)
            for name, epoch, position, updated_ms in rows
        ]

    def capture(self, name: str) -> CaptureRow | None:
        """The capture called `name`, or None."""
        return next((row for row in self.captures() if row.name == name), None)

    def put_status(self, capture: str, status: Mapping[str, object]) -> None:
        """Publish progress and lag, for people and metrics. Not durable, and no commit waits for it."""
        self._status.put(capture, status)

    def statuses(self) -> dict[str, tuple[int, dict[str, object]]]:
        """The newest status of each capture, with the time it was given (milliseconds since 1970)."""
        return self._status.read()

    # --- the writer's part ------------------------------------------------------------------------------

    def take_over(self, capture: str) -> CaptureRow:
        """Begin a new epoch of `capture` (made if it is new): from now on older writers are refused."""
        with self.database.write() as connection:
            row = connection.execute(
                "INSERT INTO captures (name, epoch, position, updated_ms) VALUES (?, 1, NULL, ?) "
                "ON CONFLICT (name) DO UPDATE SET epoch = epoch + 1, updated_ms = excluded.updated_ms "
                "RETURNING epoch, position, updated_ms",
                (capture, now_ms()),
            ).fetchone()
        return CaptureRow(capture, row[0], row[1], "{}", row[2])

    def commit(self, capture: str, epoch: int, position: str | None, watermarks: Iterable[Watermark]) -> None:
        """Move the watermarks and the position (None: leave it) at once and durably. Raises Fenced."""
        with self.database.write() as connection:
            _check_epoch(connection, capture, epoch, position)
            sequence = _next(connection, "change_sequence")
            moved = [
                (
                    mark.high_watermark,
                    mark.segment_base_offset,
                    mark.segment_bytes,
                    sequence,
                    mark.partition_id,
                )
                for mark in watermarks
            ]
            connection.executemany(
                "UPDATE partitions SET high_watermark = ?, segment_base_offset = ?, segment_bytes = ?, "
                "change = ? WHERE partition_id = ?",
                moved,
            )

    def move_log_start(
        self, capture: str, epoch: int, moves: Sequence[tuple[int, int]], emptied: Iterable[Watermark] = ()
    ) -> None:
        """Set log_start_offset of (partition_id, offset) pairs; `emptied` partitions begin a new segment."""
        with self.database.write() as connection:
            _check_epoch(connection, capture, epoch, None)
            sequence = _next(connection, "change_sequence")
            connection.executemany(
                "UPDATE partitions SET log_start_offset = ?2, change = ?3 "
                "WHERE partition_id = ?1 AND log_start_offset < ?2",
                [(partition_id, offset, sequence) for partition_id, offset in moves],
            )
            connection.executemany(
                "UPDATE partitions SET segment_base_offset = ?, segment_bytes = ? WHERE partition_id = ?",
                [(mark.segment_base_offset, mark.segment_bytes, mark.partition_id) for mark in emptied],
            )


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def initialize(database: Database) -> None:
    """Make the tables of a new catalog; of an old one, check the format."""
    with database.write() as connection:
        if not _has_format(connection):
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute("INSERT INTO format VALUES (?)", (FORMAT_VERSION,))
            connection.execute("INSERT INTO state VALUES (1, 0, 0)")
    check_format(database)


def check_format(database: Database) -> None:
    """Raise NewerFormat for a catalog of a later version, LogError for what is no catalog."""
    try:
        connection = database.connection()
        if not _has_format(connection):
            raise LogError(f"{database.path} is no catalog of a log: check the data directory")
        (version,) = connection.execute("SELECT version FROM format").fetchone()
    except sqlite3.DatabaseError as error:
        raise LogError(
            f"{database.path} cannot be read as a catalog ({error}): check the data directory and the disk"
        ) from error
    if version > FORMAT_VERSION:
        raise NewerFormat(
            f"{database.path.parent} was written by a newer version (log format {version}, this one knows up "
            f"to {FORMAT_VERSION}): run that version, or a newer one"
        )


def _has_format(connection: sqlite3.Connection) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'format'")
    return found.fetchone() is not None


def _check_epoch(connection: sqlite3.Connection, capture: str, epoch: int, position: str | None) -> None:
    cursor = connection.execute(
        "UPDATE captures SET position = ifnull(?, position), updated_ms = ? WHERE name = ? AND epoch = ?",
        (position, now_ms(), capture, epoch),
    )
    if cursor.rowcount != 1:
        raise Fenced(
            f"capture {capture!r} was taken over by another writer (this one has epoch {epoch}): "
            f"stop this process, the other one goes on from the same position"
        )


def _next(connection: sqlite3.Connection, counter: str) -> int:
    row = connection.execute(f"UPDATE state SET {counter} = {counter} + 1 RETURNING {counter}").fetchone()
    number: int = row[0]
    return number


def _insert_topic(
    connection: sqlite3.Connection, name: str, capture: str, partitions: int, config: str
) -> None:
    topic_id = uuid.uuid4().bytes
    connection.execute(
        "INSERT INTO topics VALUES (?, ?, ?, ?, ?)",
        (topic_id, name, capture, config, _next(connection, "topology_version")),
    )
    sequence = _next(connection, "change_sequence")
    connection.executemany(
        "INSERT INTO partitions (topic_id, partition_index, leader_epoch, log_start_offset, high_watermark, "
        "segment_base_offset, segment_bytes, change) VALUES (?, ?, 0, 0, 0, 0, 0, ?)",
        [(topic_id, index, sequence) for index in range(partitions)],
    )


def _read_topics(connection: sqlite3.Connection, where: str, arguments: Sequence[str | int]) -> list[Topic]:
    # Sorted here: SQLite would walk all names to save itself the sorting of a few.
    topics = connection.execute(
        f"SELECT topic_id, name, capture, config FROM topics {where}", arguments
    ).fetchall()
    topics.sort(key=itemgetter(1))
    partitions: dict[bytes, list[PartitionRow]] = {}
    # CROSS JOIN: the topics asked for come first, their partitions by index.
    for row in connection.execute(
        f"SELECT topic_id, {_PARTITION_COLUMNS} FROM topics CROSS JOIN partitions USING (topic_id) {where} "
        f"ORDER BY partition_index",
        arguments,
    ):
        partitions.setdefault(row[0], []).append(PartitionRow(*row[1:]))
    return [
        Topic(uuid.UUID(bytes=topic_id), name, capture, tuple(partitions[topic_id]), json.loads(config))
        for topic_id, name, capture, config in topics
    ]
