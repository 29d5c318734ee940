"""A snapshot of tables: several workers on one exported snapshot, each table visible once it is complete.

What is complete stays complete: a snapshot that breaks off goes on with the tables that are not, on a newer
snapshot, and the stream then hides from these tables what that snapshot saw.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import psycopg

from capture.envelope import EnvelopeError, Plan, new_encoder, topic_name
from capture.errors import CaptureError
from capture.lsn import Lsn
from capture.options import CaptureOptions
from capture.postgres.connection import Connection, failure, literal, quoted
from capture.postgres.log_sink import LogSink
from capture.postgres.publication import Streamed
from capture.postgres.relation_catalog import CatalogTable, read_tables
from capture.postgres.relation_tracker import RelationTracker
from capture.postgres.slot import NewSlot
from capture.postgres.snapshot_reader import Aborted, SnapshotReader
from capture.postgres.snapshot_table import Place, Range, SnapshotTable, ranges_of
from capture.postgres.visibility import TransactionSnapshot
from capture.postgres.wake import Wake

log = logging.getLogger(__name__)

_TID_RANGE_SCAN: Final = 140000  # before, a range of ctid reads the whole table
_CURRENT_SNAPSHOT: Final = 130000  # pg_current_snapshot
_PROGRESS_S: Final = 0.5
_CANCEL_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ExportedSnapshot:
    """A snapshot that workers import while the transaction that exported it lasts.

    All that it sees was committed before `lsn`, which is also what its rows carry. `own` is false for the
    slot's, behind which the stream starts exactly.
    """

    name: str
    lsn: Lsn
    transactions: TransactionSnapshot
    own: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the reading of one table is."""

    topic: str
    rows_done: int
    rows_estimated: int
    done: bool


def export(connection: Connection, of_slot: NewSlot | None = None, *, streams: bool) -> ExportedSnapshot:
    """Export a snapshot: that of a new slot, or one of our own. It lasts as long as the transaction.

    With `streams` a stream follows, from which is left out what the snapshot has seen. Raises CaptureError
    where that cannot be known.
    """
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    if of_slot is None and streams:
        _refuse_standby(connection)
    if of_slot is not None:
        connection.execute(f"SET TRANSACTION SNAPSHOT {literal(of_slot.snapshot_name)}".encode())
    row = connection.execute(f"SELECT pg_export_snapshot(), {current_snapshot(connection)}").fetchone()
    assert row is not None
    # Asked for after the snapshot was taken: whatever it sees was in the WAL by then.
    lsn = of_slot.consistent_point if of_slot is not None else wal_end(connection)
    return ExportedSnapshot(row[0], lsn, TransactionSnapshot.parse(row[1]), own=of_slot is None)


def _refuse_standby(connection: Connection) -> None:
    """In recovery a snapshot's text lists no transaction in progress (GetSnapshotData leaves xip empty).

    All below its xmax would count as seen, so changes that were committed after it would be left out.
    """
    row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    if row is not None and row[0]:
        raise CaptureError(
            "the server is a standby, and tables have to be read that the slot's own snapshot did not cover: "
            "a standby does not tell which transactions were running, so changes between what is read and "
            "the stream could be lost",
            "Capture from the primary (database.hostname), or begin anew with another slot.name and a new "
            "data directory, so that all tables are read on the new slot's snapshot. If only tables were "
            "added, leaving them out again (table.include.list, table.exclude.list) lets the capture go on.",
        )


def wal_end(connection: Connection) -> Lsn:
    """Where the server's WAL ends now."""
    row = connection.execute(
        "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
        " ELSE pg_current_wal_insert_lsn() END::text"
    ).fetchone()
    assert row is not None
    return Lsn.parse(row[0])


def current_snapshot(connection: Connection) -> str:
    """The expression of the running transaction's snapshot as text."""
    version = connection.info.server_version
    return f"{'pg_current_snapshot' if version >= _CURRENT_SNAPSHOT else 'txid_current_snapshot'}()::text"


class Snapshot:
    """Reads the rows of tables into the log."""

    def __init__(
        self,
        options: CaptureOptions,
        tracker: RelationTracker,
        sink: LogSink,
        tables: Sequence[CatalogTable],
        wanted: Sequence[CatalogTable],
        streamed: Mapping[int, Streamed],
        *,
        stop: Wake,
        connect: Callable[[str], Connection],
    ) -> None:
        """`tables` are all of the database, for partitions; `wanted` are those to read, in order."""
        self._options = options
        self._tracker = tracker
        self._sink = sink
        self._all = tables
        self._wanted = wanted
        self._streamed = streamed
        self._stop = stop
        self._connect = connect
        self._abort = Wake()
        self._planning = threading.Lock()
        self._work: queue.SimpleQueue[tuple[SnapshotTable, Range]] = queue.SimpleQueue()
        self._finished: queue.SimpleQueue[SnapshotTable | BaseException | None] = queue.SimpleQueue()
        self.tables: list[SnapshotTable] = []

    def progress(self) -> list[Progress]:
        """How far each table is."""
        envelope = self._options.envelope
        return [
            Progress(
                topic_name(envelope, each.table.schema, each.table.name),
                each.rows,
                each.table.rows_estimated,
                each.complete,
            )
            for each in self.tables
        ]

    def run(
        self,
        snapshot: ExportedSnapshot,
        *,
        begun: bool,
        imported: Callable[[], None],
        completed: Callable[[frozenset[int], Sequence[str]], None],
    ) -> None:
        """Read all tables; those that were rewritten meanwhile stay uncommitted and need a newer snapshot.

        `imported` is called when the exporter may go, `completed` with tables to commit and their topics.
        Raises CaptureError; Aborted when stopped.
        """
        readers: list[SnapshotReader] = []
        threads: list[threading.Thread] = []
        try:
            for number in range(self._options.snapshot.threads + 1):
                reader = SnapshotReader(
                    self._connect(f"snapshot {number}"),
                    new_encoder(self._options.envelope),
                    self._sink,
                    self._plan_of,
                    self._abort,
                )
                readers.append(reader)
                reader.begin(snapshot.name, snapshot.lsn.value, snapshot.transactions.xmax & 0xFFFFFFFF)
            imported()
            self._prepare(readers[0].connection, begun)
            threads = [
                threading.Thread(
                    target=self._run_worker, args=[reader], name=f"snapshot-{number}", daemon=True
                )
                for number, reader in enumerate(readers[1:])
            ]
            for thread in threads:
                thread.start()
            self._coordinate(readers[0], len(threads), completed)
        except psycopg.Error as error:
            raise failure(error, "the snapshot broke off") from error
        finally:
            self._abort.set()
            for each in self.tables:
                each.give_up()
            for reader, thread in zip(readers[1:], threads, strict=False):
                if thread.is_alive():
                    _cancel(reader.connection)
                thread.join()
            for reader in readers:
                reader.connection.close()
            self._abort.close()

    def _prepare(self, connection: Connection, begun: bool) -> None:
        """Find out which tables have rows, and cut them into ranges."""
        split = self._options.snapshot.threads > 1 and connection.info.server_version >= _TID_RANGE_SCAN
        leaves = {table.oid: self._leaves(table) for table in self._wanted}
        blocks = _blocks(connection, [leaf.oid for parts in leaves.values() for leaf in parts])
        first, last = self._ends(connection, leaves)
        for table in self._wanted:
            self._sink.partition(topic_name(self._options.envelope, table.schema, table.name))
            place = Place(first=table.oid == first and not begun, last=table.oid == last)
            each = SnapshotTable(table, self._streamed.get(table.oid), place)
            parts = [
                (leaf.schema, leaf.name, leaf.oid, blocks.get(leaf.oid, 0)) for leaf in leaves[table.oid]
            ]
            ranges = ranges_of(parts, split=split)
            each.expect(len(ranges))
            self.tables.append(each)
            for part in ranges:
                self._work.put((each, part))
            if not ranges:
                each.plan = self._plan_of(connection, each)
                self._finished.put(each)

    def _ends(
        self, connection: Connection, leaves: Mapping[int, Sequence[CatalogTable]]
    ) -> tuple[int | None, int | None]:
        """The first and the last of the tables that have rows at all."""

        def has_rows(table: CatalogTable) -> bool:
            streamed = self._streamed.get(table.oid)
            row_filter = streamed.row_filter if streamed is not None else None
            return any(_has_rows(connection, leaf, row_filter) for leaf in leaves[table.oid])

        first = next((table.oid for table in self._wanted if has_rows(table)), None)
        last = next((table.oid for table in reversed(self._wanted) if has_rows(table)), None)
        return first, last

    def _leaves(self, table: CatalogTable) -> list[CatalogTable]:
        if not table.partitioned:
            return [table]
        children = sorted(
            (child for child in self._all if child.parent == table.oid), key=lambda child: child.name
        )
        return [leaf for child in children for leaf in self._leaves(child)]

    def _plan_of(self, connection: Connection, each: SnapshotTable) -> Plan | None:
        """The plan of a table, made by whoever reads it first; None if it is gone."""
        with self._planning:
            if each.plan is None:
                oid = each.table.oid
                found = read_tables(connection, [oid])
                now = _only_columns(found.get(oid), self._streamed.get(oid))
                if now is not None:
                    each.plan = self._tracker.plan_of_snapshot(connection, now)
            return each.plan

    def _run_worker(self, reader: SnapshotReader) -> None:
        """Take ranges until there are none."""
        try:
            while not self._abort.is_set():
                try:
                    each, part = self._work.get_nowait()
                except queue.Empty:
                    break
                if reader.read(each, part):
                    if not each.place.last and not each.again:
                        reader.finish(each)
                    self._finished.put(each)
            self._finished.put(None)
        except Aborted:
            self._finished.put(None)
        except EnvelopeError as error:
            problem = CaptureError(f"a row cannot be captured: {error}", "Exclude the column, or its table.")
            problem.__cause__ = error
            self._finished.put(problem)
        except Exception as error:  # noqa: BLE001 - the coordinator raises it
            self._finished.put(error)

    def _coordinate(
        self,
        reader: SnapshotReader,
        workers: int,
        completed: Callable[[frozenset[int], Sequence[str]], None],
    ) -> None:
        """Commit tables as they are completed; the last one when all others are."""
        last: SnapshotTable | None = None
        running = workers
        while running:
            ready = self._next_finished()
            if self._stop.is_set():
                self._abort.set()
            done: list[SnapshotTable] = []
            for item in ready:
                if item is None:
                    running -= 1
                elif isinstance(item, BaseException):
                    raise item
                elif item.place.last and not item.again:
                    last = item
                elif not item.again:
                    done.append(item)
            self._complete(done, completed)
        if self._stop.is_set():
            raise Aborted
        if last is not None:
            assert last.plan is not None
            reader.prepare(last, last.plan)
            reader.finish(last)
            self._complete([last], completed)

    def _next_finished(self) -> list[SnapshotTable | BaseException | None]:
        """What workers have reported: at least one report, unless a while has passed."""
        ready: list[SnapshotTable | BaseException | None] = []
        try:
            ready.append(self._finished.get(timeout=_PROGRESS_S))
            while True:
                ready.append(self._finished.get_nowait())
        except queue.Empty:
            return ready

    def _complete(
        self, done: Sequence[SnapshotTable], completed: Callable[[frozenset[int], Sequence[str]], None]
    ) -> None:
        if not done:
            return
        topics = [each.plan.topic for each in done if each.plan is not None]
        completed(frozenset(each.table.oid for each in done), topics)
        for each in done:
            each.complete = True
            log.info("table read", extra={"table": each.table.qualified_name, "rows": each.rows})


def _only_columns(now: CatalogTable | None, streamed: Streamed | None) -> CatalogTable | None:
    """Without what the publication leaves out; generated columns, which it never lists, stay."""
    if now is None or streamed is None or streamed.columns is None:
        return now
    listed = set(streamed.columns)
    if all(column.name in listed for column in now.columns if not column.generated):
        return now
    return replace(now, columns=tuple(column for column in now.columns if column.name in listed))


def _blocks(connection: Connection, oids: Sequence[int]) -> dict[int, int]:
    rows = connection.execute(
        "SELECT o::int8, pg_relation_size(o::regclass) / current_setting('block_size')::int8"
        " FROM unnest(%s::oid[]) AS t(o) WHERE EXISTS (SELECT FROM pg_class c WHERE c.oid = o)",
        [list(oids)],
    )
    return {oid: blocks or 0 for oid, blocks in rows}


def _has_rows(connection: Connection, table: CatalogTable, row_filter: str | None) -> bool:
    """Whether the snapshot shows a row. What may not be looked at has none here; reading it says why."""
    source = f"{quoted(table.schema)}.{quoted(table.name)}"
    where = f" WHERE ({row_filter})" if row_filter is not None else ""
    try:
        with connection.transaction():
            rows = connection.execute(f"SELECT 1 FROM ONLY {source}{where} LIMIT 1".encode())
            return rows.fetchone() is not None
    except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege):
        return False


def _cancel(connection: Connection) -> None:
    """End what a connection is waiting for, if it is."""
    with contextlib.suppress(psycopg.Error):
        connection.cancel_safe(timeout=_CANCEL_S)
