"""One worker of a snapshot: COPY BINARY over libpq, row by row into the encoder, on an imported snapshot."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import psycopg
from psycopg.pq import ExecStatus

from capture.envelope import Encoder, Plan, SnapshotMarker, copy_columns
from capture.errors import CaptureError
from capture.postgres.connection import Connection, failure, literal
from capture.postgres.log_sink import LogSink
from capture.postgres.snapshot_table import Range, SnapshotTable, lock_statement, rewritten_query
from capture.postgres.wake import Wake

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\x00"
_HEADER_BYTES: Final = len(_SIGNATURE) + 8
_NO_ROW: Final = (b"", b"\xff\xff")  # nothing but the header; the trailer
_APPEND_BYTES: Final = 1024 * 1024
_IDLE_S: Final = 1.0


class Aborted(Exception):
    """Another worker failed, or the capture is being stopped."""


class SnapshotReader:
    """Reads ranges of tables; one thread, one connection, one encoder."""

    def __init__(
        self,
        connection: Connection,
        encoder: Encoder,
        sink: LogSink,
        plan_of: Callable[[Connection, SnapshotTable], Plan | None],
        abort: Wake,
    ) -> None:
        self.connection = connection
        self._encoder = encoder
        self._sink = sink
        self._plan_of = plan_of
        self._abort = abort
        self._planned: dict[int, Plan] = {}
        self._lsn = self._txid = 0

    def begin(self, snapshot_name: str, lsn: int, txid: int) -> None:
        """Import the snapshot; `lsn` and `txid` are what source says of its rows."""
        self.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self.connection.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot_name)}".encode())
        # A plain scan gains nothing from either, and their start-up costs more than a small table.
        self.connection.execute(
            "SELECT set_config(name, CASE name WHEN 'jit' THEN 'off' ELSE '0' END, true) FROM pg_settings"
            " WHERE name IN ('jit', 'max_parallel_workers_per_gather')"
        )
        self._lsn, self._txid = lsn, txid

    def read(self, table: SnapshotTable, part: Range) -> bool:
        """Read one range; whether the table is complete with it. Raises CaptureError, Aborted.

        The lock on the relation lasts only as long as the savepoint.
        """
        name = table.table.qualified_name
        try:
            self.connection.execute("SAVEPOINT range")
            try:
                return self._read_locked(table, part)
            finally:
                if self.connection.pgconn.transaction_status != psycopg.pq.TransactionStatus.ACTIVE:
                    self.connection.execute("ROLLBACK TO SAVEPOINT range")
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
            # Dropped or altered since the snapshot was taken: the next round sees what is there then.
            table.again = True
            return table.range_done(None)[1]
        except psycopg.errors.InsufficientPrivilege as error:
            raise CaptureError(
                f"cannot read table {name}: {error.diag.message_primary}",
                f"Let the role read it: GRANT SELECT ON {name} TO current_role; "
                "or leave it out (table.exclude.list).",
            ) from error
        except psycopg.Error as error:
            raise failure(error, f"cannot read table {name}") from error

    def prepare(self, table: SnapshotTable, plan: Plan) -> None:
        """Have the encoder write rows of this table, with the database's clock of now."""
        if self._planned.get(table.table.oid) is not plan:
            self._encoder.set_relation(table.table.oid, plan, ())
            self._planned[table.table.oid] = plan
        clock = self.connection.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000000").fetchone()
        self._encoder.set_snapshot(self._lsn, self._txid, int(clock[0]) if clock else 0)

    def finish(self, table: SnapshotTable) -> None:
        """Write the table's last row, after `prepare`."""
        if table.final_row is None:
            return
        self._write(table, table.final_row, table.last_marker())
        self._flush(table, 1, first=True)
        table.final_row = None

    def _read_locked(self, table: SnapshotTable, part: Range) -> bool:
        self.connection.execute(lock_statement(part).encode())
        rewritten = self.connection.execute(rewritten_query(part).encode()).fetchone()
        if table.again or rewritten is None or rewritten[0]:
            table.again = True
            return table.range_done(None)[1]
        plan = self._plan_of(self.connection, table)
        if plan is None:
            table.again = True
            return table.range_done(None)[1]
        self.prepare(table, plan)
        release, complete = table.range_done(
            self._copy(table, table.copy_statement(part, copy_columns(plan)))
        )
        for row in release:
            first = table.take_first()
            self._write(table, row, table.first_marker() if first else SnapshotMarker.TRUE)
            self._flush(table, 1, first=first)
        return complete

    def _copy(self, table: SnapshotTable, statement: str) -> memoryview | None:
        """Encode and append the rows of a COPY but for its last one, which is returned."""
        pgconn = self.connection.pgconn
        self._start(statement)
        consume, get, feed = pgconn.consume_input, pgconn.get_copy_data, self._encoder.feed_copy
        encoder, oid = self._encoder, table.table.oid
        marker, first, rows = SnapshotMarker.TRUE, False, 0
        held: memoryview | None = None
        header = True
        while True:
            consume()
            now_ns = time.time_ns()
            arrived = False
            while True:
                size, data = get(1)
                if size <= 0:
                    break
                arrived = True
                if header:
                    data, header = _after_header(data), False
                    size = len(data)
                if size <= 2 and bytes(data) in _NO_ROW:
                    continue
                if held is not None:
                    if rows == 0 and not first:
                        first = table.take_first()
                        marker = table.first_marker() if first else SnapshotMarker.TRUE
                        feed(oid, held, marker, now_ns)
                        marker = SnapshotMarker.TRUE
                    else:
                        feed(oid, held, marker, now_ns)
                    rows += 1
                held = data
            if size < 0:
                break
            if encoder.pending_bytes >= _APPEND_BYTES:
                self._flush(table, rows, first=first)
                first, rows = False, 0
                if self._abort.is_set():
                    raise Aborted
            if not arrived:
                self._abort.wait_for(pgconn.socket, _IDLE_S)
                if self._abort.is_set():
                    raise Aborted
        self._end()
        self._flush(table, rows, first=first)
        return held

    def _write(self, table: SnapshotTable, row: memoryview, marker: SnapshotMarker) -> None:
        self._encoder.feed_copy(table.table.oid, row, marker, time.time_ns())

    def _flush(self, table: SnapshotTable, rows: int, *, first: bool) -> None:
        """Append what is encoded; the table's first record before all others."""
        outputs = self._encoder.take()
        if outputs:
            if not first:
                table.await_first()
            self._sink.append(outputs)
            if first:
                table.first_appended()
        table.count(rows)

    def _start(self, statement: str) -> None:
        pgconn = self.connection.pgconn
        pgconn.send_query(statement.encode())
        pgconn.flush()
        while pgconn.is_busy():
            self._abort.wait_for(pgconn.socket, _IDLE_S)
            if self._abort.is_set():
                raise Aborted
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None or result.status != ExecStatus.COPY_OUT:
            while pgconn.get_result() is not None:
                pass
            raise (
                psycopg.errors.error_from_result(result) if result else psycopg.OperationalError("no answer")
            )

    def _end(self) -> None:
        pgconn = self.connection.pgconn
        failed = None
        while (result := pgconn.get_result()) is not None:
            if result.status == ExecStatus.FATAL_ERROR:
                failed = psycopg.errors.error_from_result(result)
        if failed is not None:
            raise failed


def _after_header(data: memoryview) -> memoryview:
    """The first message without the header of COPY BINARY; the first row may follow it at once."""
    if len(data) < _HEADER_BYTES or bytes(data[: len(_SIGNATURE)]) != _SIGNATURE:
        raise CaptureError("the server's COPY is not in binary format", "Report it.")
    extension = int.from_bytes(data[_HEADER_BYTES - 4 : _HEADER_BYTES], "big")
    return data[_HEADER_BYTES + extension :]
