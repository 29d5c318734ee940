"""One capture of a Postgres database, from its first start to its stop, over every interruption between.

A session is: look, publication, slot, snapshot of what is not read yet, stream. When it breaks and a retry
may help, the next goes on from the position that the log holds; an encoder lives only as long as a session.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import psycopg

from capture.envelope import Encoder, new_encoder
from capture.errors import CaptureError
from capture.log import Log, LogError, Writer
from capture.log.memory import CaptureMemory
from capture.lsn import Lsn
from capture.options import CaptureOptions
from capture.postgres import slot as slots
from capture.postgres.connection import Connection, connect, failure
from capture.postgres.doctor import ERROR, examine_connected
from capture.postgres.log_sink import LogFailure, LogSink, from_log
from capture.postgres.position import HiddenTables, Position
from capture.postgres.publication import Publication, captured, ensure, read_publication, wait_for_writers
from capture.postgres.relation_catalog import CatalogTable, list_tables, read_tables
from capture.postgres.relation_tracker import RelationTracker
from capture.postgres.replication import ReplicationStream
from capture.postgres.snapshot import Snapshot, export, wal_end
from capture.postgres.snapshot_reader import Aborted
from capture.postgres.status import StatusBoard
from capture.postgres.streaming import Streaming
from capture.postgres.wake import Wake

log = logging.getLogger(__name__)

_FIRST_WAIT_S: Final = 0.2
_ROUNDS: Final = 20
# How long a stop waits for a query of the catalog before it is cancelled.
_GRACE_S: Final = 1.0


class PostgresCapture:
    """Runs until `stop` is set, until a snapshot that was all is done, or until an error that stays."""

    def __init__(self, options: CaptureOptions, data: Log, *, stop: Wake, wake: Wake) -> None:
        self._options = options
        self._stop = stop
        self._wake = wake
        try:
            self._writer = Writer.open(data, options.name)
            self._memory = CaptureMemory(data.catalog.database, options.name)
        except LogError as error:
            raise from_log(error) from error
        self._sink = LogSink(self._writer, options.topic_config, wake)
        self._tracker = RelationTracker(options, data.schemas, self._memory, self._sink)
        self._position = _position_of(self._writer, options)
        if self._position is not None:
            self._sink.committed_lsn = self._position.lsn
        self._status = StatusBoard(options.name, data.catalog, self._sink)
        self._sessions = 0
        self._fresh = True  # this process has not decided yet what has to be read

    @property
    def phase(self) -> str:
        """What it is doing: starting, snapshot, streaming, done, failed."""
        return self._status.phase

    @property
    def committed_lsn(self) -> Lsn:
        """How far the log holds the stream durably."""
        return self._sink.committed_lsn

    def run(self) -> None:
        """Capture. Raises CaptureError; its `retry` says whether a later start may succeed."""
        self._sink.start()
        self._status.start()
        try:
            self._keep_going()
        except CaptureError as error:
            self._status.failed(str(error))
            raise
        finally:
            self._sink.stop()
            self._status.stop()
            self._writer.close()

    def _keep_going(self) -> None:
        failures = 0
        while not self._stop.is_set():
            position = self._position
            try:
                self._session()
                return
            except Aborted:
                return
            except CaptureError as error:
                if self._stop.is_set():
                    log.info("stopped", extra={"while": str(error)})
                    return
                if not error.retry or isinstance(error, LogFailure) or self._sessions == 0:
                    raise
                failures = 1 if self._position != position else failures + 1
                limit = self._options.max_retries
                if 0 <= limit < failures:
                    raise CaptureError(f"gave up after {limit} retries: {error}", "") from error
                wait_s = min(_FIRST_WAIT_S * 2 ** min(failures - 1, 16), self._options.retry_wait_ms / 1000)
                log.warning("capture interrupted", extra={"error": str(error), "retry_in_s": wait_s})
                self._status.interrupted(str(error))
                self._sink.flush()
                self._sink.discard_uncommitted()
                self._stop.wait(wait_s)

    def _session(self) -> None:
        try:
            with contextlib.closing(self._connect("catalog")) as catalog, self._cancelled_on_stop(catalog):
                self._examine(catalog)
                self._sessions += 1
                if self._options.snapshot.mode == "initial_only":
                    self._snapshot_only(catalog)
                else:
                    self._capture(catalog)
        except psycopg.Error as error:
            raise failure(error, "the connection to the database broke") from error
        except LogError as error:
            raise from_log(error) from error

    @contextlib.contextmanager
    def _cancelled_on_stop(self, catalog: Connection) -> Iterator[None]:
        """Do not let a stop wait for a query that waits for a lock."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_GRACE_S):
                if self._stop.is_set():
                    with contextlib.suppress(psycopg.Error):
                        catalog.cancel_safe(timeout=_GRACE_S)

        watcher = threading.Thread(target=watch, name="watcher", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _capture(self, catalog: Connection) -> None:
        tables = list_tables(catalog)
        slot = self._usable_slot(catalog, tables)
        before = read_publication(catalog, self._options.publication.name, tables)
        if before is not None:  # what ensure adds to it was not streamed until now
            self._tracker.forget_others(captured(tables, before, self._options))
        publication = ensure(catalog, tables, self._options)
        with self._new_slot(slot) as new_slot:
            if self._stop.is_set():
                return
            self._begin(catalog, captured(tables, publication, self._options), slot, new_slot)
            self._read_pending(catalog, publication, new_slot)
        if not self._stop.is_set():
            self._stream(catalog)

    # --- before the stream ---

    def _examine(self, catalog: Connection) -> None:
        """Refuse to begin where the database lacks something; later, errors speak for themselves."""
        if self._sessions:
            return
        for finding in examine_connected(catalog, self._options):
            if finding.severity == ERROR:
                raise CaptureError(finding.what, f"To mend it: {finding.statement}", retry=finding.retry)
            log.log(
                logging.INFO if finding.severity == "info" else logging.WARNING,
                finding.what,
                extra={"where": finding.where, "statement": finding.statement},
            )

    def _usable_slot(self, catalog: Connection, tables: Sequence[CatalogTable]) -> slots.Slot | None:
        """The slot if it goes on from our position. If not, the position is given up, or it is an error."""
        slot = slots.read_slot(catalog, self._options.slot.name)
        if self._position is not None and self._position.dropped:
            self._position = None
        problem = None
        if slot is not None and read_publication(catalog, self._options.publication.name, tables) is None:
            problem = slots.older_than_publication(slot, self._options)
        elif self._position is not None:
            problem = slots.gone(slot, self._options, self._position.lsn, wal_end(catalog))
        if problem is None:
            return slot
        if self._options.snapshot.mode != "when_needed":
            raise problem
        log.warning("the tables are read anew", extra={"reason": problem.what})
        if slot is not None:
            slots.drop_slot(catalog, slot.name)
        self._position = None
        return None

    @contextlib.contextmanager
    def _new_slot(self, slot: slots.Slot | None) -> Iterator[slots.NewSlot | None]:
        """A new slot if there is none; its connection, and so its snapshot, last as long as the block."""
        if slot is not None:
            yield None
            return
        self._status.phase = "starting"
        with contextlib.closing(self._connect("slot", replication=True)) as replication:
            yield slots.create_slot(replication, self._options, self._stop)

    def _begin(
        self,
        catalog: Connection,
        tables: Sequence[CatalogTable],
        slot: slots.Slot | None,
        new_slot: slots.NewSlot | None,
    ) -> None:
        """Decide what has to be read, and have the log hold it before anything is read."""
        self._tracker.forget_others(tables)
        mode, position = self._options.snapshot.mode, self._position
        wanted = frozenset(table.oid for table in tables if self._is_snapshotted(table))
        if position is None:
            start = new_slot.consistent_point if new_slot is not None else None
            if slot is not None:
                start = slot.confirmed_flush_lsn
            if start is None:
                raise CaptureError(
                    f'slot "{self._options.slot.name}" is still being made', "It is tried again.", retry=True
                )
            pending = frozenset() if mode == "no_data" else wanted
            position = Position(start, pending=pending)
        else:
            pending = position.pending
            if mode == "always" and self._fresh:
                pending = wanted
            elif mode != "no_data":
                pending |= wanted - self._tracker.known
            position = replace(
                position, pending=pending & wanted, begun=position.begun and bool(position.pending)
            )
        self._fresh = False
        if position != self._position:
            self._sink.commit(position)
            self._position = position
        new = position.pending | (frozenset(table.oid for table in tables) - self._tracker.known)
        self._tracker.remember(read_tables(catalog, new), catalog)

    def _is_snapshotted(self, table: CatalogTable) -> bool:
        collections = self._options.snapshot.collections
        return not collections or collections.matches(table.qualified_name)

    def _snapshot_only(self, catalog: Connection) -> None:
        """snapshot.mode=initial_only: no slot, no stream."""
        if self._position is None:
            tables = captured(list_tables(catalog), None, self._options)
            pending = frozenset(table.oid for table in tables if self._is_snapshotted(table))
            self._position = Position(wal_end(catalog), pending=pending)
            self._sink.commit(self._position)
            self._tracker.remember(read_tables(catalog, pending), catalog)
        self._read_pending(catalog, None, None)
        self._status.phase = "done"

    # --- snapshot ---

    def _read_pending(
        self, catalog: Connection, publication: Publication | None, new_slot: slots.NewSlot | None
    ) -> None:
        """Read what is pending, in rounds: tables that were rewritten meanwhile need a newer snapshot."""
        for _ in range(_ROUNDS):
            position = self._position
            assert position is not None
            if not position.pending:
                return
            tables = list_tables(catalog)
            chosen = captured(tables, publication, self._options)
            wanted = [table for table in chosen if table.oid in position.pending]
            gone = position.pending - {table.oid for table in wanted}
            if gone:
                self._tracker.forget_others(chosen)
                self._position = position = position.without_pending(gone)
                self._sink.commit(position)
            if new_slot is None and publication is not None:
                wait_for_writers(catalog, position.pending, tables, self._stop)
            self._read(tables, wanted, publication, new_slot)
            self._sink.discard_uncommitted()
            new_slot = None
        raise CaptureError(
            "tables are rewritten faster than they can be read", "It is tried again.", retry=True
        )

    def _read(
        self,
        tables: Sequence[CatalogTable],
        wanted: Sequence[CatalogTable],
        publication: Publication | None,
        new_slot: slots.NewSlot | None,
    ) -> None:
        position = self._position
        assert position is not None
        snapshot = Snapshot(
            self._options,
            self._tracker,
            self._sink,
            tables,
            wanted,
            publication.streamed if publication is not None else {},
            stop=self._stop,
            connect=self._connect,
        )
        self._status.reading(snapshot)
        with contextlib.closing(self._connect("snapshot")) as exporter:
            exported = export(exporter, new_slot, streams=publication is not None)
            log.info("snapshot begins", extra={"tables": len(wanted), "lsn": str(exported.lsn)})

            def completed(relations: frozenset[int], topics: Sequence[str]) -> None:
                hidden = None
                if exported.own and publication is not None:
                    hidden = HiddenTables(exported.transactions, exported.lsn, relations)
                assert self._position is not None
                position = self._position.with_read(relations, hidden)
                self._sink.commit(position, topics)
                self._position = position

            snapshot.run(exported, begun=position.begun, imported=exporter.close, completed=completed)

    # --- stream ---

    def _stream(self, catalog: Connection) -> None:
        position = self._position
        assert position is not None
        encoder = self._new_encoder(position)
        self._tracker.new_stream()
        with contextlib.closing(self._connect("streaming", replication=True)) as replication:
            stream = ReplicationStream(replication)
            if not stream.start_when_free(self._options, position.lsn, self._stop):
                return
            streaming = Streaming(
                stream,
                catalog,
                encoder,
                self._tracker,
                self._sink,
                position,
                self._options,
                wake=self._wake,
                stop=self._stop,
                sender_timeout_s=_sender_timeout_s(catalog),
            )
            self._status.streaming(streaming, encoder, catalog)
            log.info("streaming", extra={"slot": self._options.slot.name, "lsn": str(position.lsn)})
            try:
                streaming.run()
            finally:
                self._position = streaming.position
        if self._options.slot.drop_on_stop:
            self._drop_slot(catalog)

    def _new_encoder(self, position: Position) -> Encoder:
        encoder = new_encoder(self._options.envelope)
        encoder.resume_lsn = position.lsn.value
        encoder.last_commit_lsn = position.last_commit_lsn
        return encoder

    def _drop_slot(self, catalog: Connection) -> None:
        """slot.drop.on.stop: the next start begins anew."""
        assert self._position is not None
        self._sink.commit(replace(self._position, dropped=True))
        slots.drop_slot(catalog, self._options.slot.name)

    def _connect(self, purpose: str, *, replication: bool = False) -> Connection:
        application = f"tidegate {self._options.name} {purpose}"
        return connect(self._options.connection, application, replication=replication)


def _position_of(writer: Writer, options: CaptureOptions) -> Position | None:
    if writer.position is None:
        return None
    try:
        return Position.from_json(writer.position)
    except (ValueError, KeyError, TypeError) as error:
        raise CaptureError(
            f"the log holds a position of capture {options.name} that this version cannot read",
            "It was written by another version, or for another source: run that, or choose another name.",
        ) from error


def _sender_timeout_s(catalog: Connection) -> float:
    """wal_sender_timeout, after which the server gives up a silent client; 0 for never."""
    row = catalog.execute(
        "SELECT setting::float8 FROM pg_settings WHERE name = 'wal_sender_timeout'"
    ).fetchone()
    return row[0] / 1000 if row is not None else 0.0
