"""One table of a snapshot: the ranges to read, who comes first, which row is the last.

Several workers read ranges of one table at the same time and append to the same partition. Debezium's markers
hold all the same: the first record of the partition says so, and the last row is held back until it is known
that no other follows (the reference, 05 section 2).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from capture.envelope import Plan, SnapshotMarker
from capture.postgres.connection import literal, quoted
from capture.postgres.publication import Streamed
from capture.postgres.relation_catalog import CatalogTable

# Blocks (of 8 KiB) in a range, and from how many on a table is split at all.
RANGE_BLOCKS: Final = 16384


@dataclass(frozen=True, slots=True)
class Range:
    """Blocks of one relation of the table: a leaf if it is partitioned. `end` None is the open end."""

    schema: str
    name: str
    oid: int
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """Whether a table is the first, or the last, of the snapshot that has rows."""

    first: bool
    last: bool


class SnapshotTable:
    """The shared state of the workers that read a table; every method may be called by any of them."""

    def __init__(self, table: CatalogTable, streamed: Streamed | None, place: Place) -> None:
        self.table = table
        self.place = place
        self.plan: Plan | None = None
        self.rows = 0
        self.complete = False  # all its rows are in the log, visible
        self.again = False  # its rows were rewritten after the snapshot was taken
        self.final_row: memoryview | None = None
        self._row_filter = streamed.row_filter if streamed is not None else None
        self._ranges_left = 0
        self._lock = threading.Lock()
        self._first_taken = False
        self._first_appended = threading.Event()
        self._held: memoryview | None = None

    def copy_statement(self, part: Range, expressions: Sequence[str]) -> str:
        """COPY of a range; `ONLY`, since rows of an inheriting table are that table's own."""
        conditions = []
        if part.start > 0:
            conditions.append(f"ctid >= '({part.start},0)'::tid")
        if part.end is not None:
            conditions.append(f"ctid < '({part.end},0)'::tid")
        if self._row_filter is not None:
            conditions.append(f"({self._row_filter})")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        source = f"{quoted(part.schema)}.{quoted(part.name)}"
        return f"COPY (SELECT {', '.join(expressions)} FROM ONLY {source}{where}) TO STDOUT (FORMAT binary)"

    def expect(self, ranges: int) -> None:
        """How many ranges there are to read."""
        self._ranges_left = ranges

    def take_first(self) -> bool:
        """Whether the caller's next row is the table's first record; true for one caller only."""
        with self._lock:
            taken, self._first_taken = self._first_taken, True
            return not taken

    def first_appended(self) -> None:
        """The first record is in the log's files; the others' may follow."""
        self._first_appended.set()

    def await_first(self) -> None:
        """Wait until `first_appended`."""
        self._first_appended.wait()

    def give_up(self) -> None:
        """Let nobody wait for a first record that does not come."""
        self._first_appended.set()

    def count(self, rows: int) -> None:
        """So many more rows were written."""
        with self._lock:
            self.rows += rows

    def range_done(self, held: memoryview | None) -> tuple[list[memoryview], bool]:
        """A range was read but for its last row.

        Returns rows that are now known not to be the last, to be written by the caller, and whether the table
        is complete; its last row is then in `final_row`, unless it is empty.
        """
        with self._lock:
            release = []
            if held is not None:
                if self._held is not None:
                    release.append(self._held)
                self._held = held
            self._ranges_left -= 1
            complete = self._ranges_left == 0
            if complete:
                self.final_row = self._held
                self._held = None
            return release, complete

    def last_marker(self) -> SnapshotMarker:
        """What the table's last row says; of a table with one row that is not the first marker."""
        if self.place.last:
            return SnapshotMarker.LAST
        if self.place.first and self.take_first():
            return SnapshotMarker.FIRST
        return SnapshotMarker.LAST_IN_DATA_COLLECTION

    def first_marker(self) -> SnapshotMarker:
        """What the table's first row says, if it is not the last as well."""
        return SnapshotMarker.FIRST if self.place.first else SnapshotMarker.FIRST_IN_DATA_COLLECTION


def ranges_of(leaves: Sequence[tuple[str, str, int, int]], *, split: bool) -> list[Range]:
    """The ranges of (schema, name, oid, blocks) relations; the last of each has an open end."""
    found = []
    for schema, name, oid, blocks in leaves:
        starts = list(range(0, max(blocks, 1), RANGE_BLOCKS)) if split and blocks >= 2 * RANGE_BLOCKS else [0]
        for start, end in zip(starts, [*starts[1:], None], strict=True):
            found.append(Range(schema, name, oid, start, end))
    return found


def lock_statement(part: Range) -> str:
    """Keep the range's relation from being rewritten or dropped while it is read."""
    return f"LOCK TABLE ONLY {quoted(part.schema)}.{quoted(part.name)} IN ACCESS SHARE MODE"


def rewritten_query(part: Range) -> str:
    """Whether the relation's file is another than at the time of the snapshot.

    pg_class is read as of the snapshot, the function as of now. Rewriting forms of ALTER TABLE and TRUNCATE
    are not safe for older snapshots: the table would look empty (PostgreSQL documentation, "Caveats").
    """
    return (
        "SELECT c.relfilenode::int8 IS DISTINCT FROM pg_catalog.pg_relation_filenode(c.oid)::int8"
        f" FROM pg_class c WHERE c.oid = {part.oid}::oid AND c.relname = {literal(part.name)}"
    )
