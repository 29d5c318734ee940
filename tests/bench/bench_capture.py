"""From the slot to the durable log, and from a table to the log, against what Postgres' own tools drain.

`capture_bulk` is one transaction of a million rows, `capture_small` 200,000 one-row transactions, `snapshot`
a table of a million rows; ten columns each. The references are `pg_recvlogical` on a slot of the same
publication and `psql \\copy … binary`, both to nowhere, in the same run. Each of ours is measured from the
start of streaming (or of the snapshot) to the commit of the last record. Rounds of ours and theirs alternate
and the best of each counts: whatever else the machine does can only slow a round down.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from capture.lsn import Lsn
from capture.options import CaptureOptions, from_url
from tests.bench.figures import at_least
from tests.support.capture_thread import CaptureThread
from tests.support.postgres import PostgresServer

FIGURES = ("capture_bulk", "capture_small", "snapshot")

ROWS = 1_000_000
SMALL = 200_000
ROUNDS = 3
TABLE = """CREATE TABLE measurements (id bigint PRIMARY KEY, device integer NOT NULL, label text NOT NULL,
    celsius double precision, volts real, at timestamptz NOT NULL, note varchar(40), active boolean NOT NULL,
    amount numeric(12,2), kind smallint)"""
ROW = """(SELECT g, (g % 1000)::int, 'device ' || g % 1000, g * 0.37, (g % 77) * 0.5,
    timestamptz '2026-01-01' + g * interval '1 second', 'note ' || g, g % 2 = 0, (g % 100000) / 100.0,
    (g % 30)::smallint FROM generate_series({first}, {last}) g)"""
PUBLICATION = "dbz_publication"


def run() -> list[dict[str, Any]]:
    """Measure on a server of our own; its WAL lies in memory or on disk as its data does, for both sides."""
    settings = {"fsync": "off", "max_wal_size": "8GB", "shared_buffers": "512MB", "autovacuum": "off"}
    with (
        PostgresServer(settings) as server,
        tempfile.TemporaryDirectory(prefix="tidegate-bench-", ignore_cleanup_errors=True) as folder,
    ):
        database = server.create_database()
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(TABLE)
            connection.execute(f"CREATE PUBLICATION {PUBLICATION} FOR TABLE measurements")
            bench = Bench(server, database, Path(folder), connection)
            bulk = bench.stream(lambda: bench.insert(ROWS), ROWS)
            snapshot = bench.snapshot()
            small = bench.stream(lambda: bench.insert_one_by_one(SMALL), SMALL)
    return [
        at_least("capture_bulk", bulk[0], "rows/s", target=1.2, reference=bulk[1]),
        at_least("capture_small", small[0], "rows/s", target=1.5, reference=small[1]),
        at_least("snapshot", snapshot[0], "rows/s", target=0.6, reference=snapshot[1]),
    ]


class Bench:
    """One database, measured in turns by ours and by theirs."""

    def __init__(
        self, server: PostgresServer, database: str, folder: Path, connection: psycopg.Connection[Any]
    ) -> None:
        self.server = server
        self.database = database
        self.folder = folder
        self.connection = connection
        self.next_id = 1
        self.captures = 0

    def insert(self, rows: int) -> None:
        """All in one transaction."""
        last = self.next_id + rows - 1
        self.connection.execute(
            f"INSERT INTO measurements {ROW.format(first=self.next_id, last=last)}".encode()
        )
        self.next_id = last + 1

    def insert_one_by_one(self, rows: int) -> None:
        """A transaction each."""
        last = self.next_id + rows - 1
        one = ROW.format(first="i", last="i")
        self.connection.execute("SET synchronous_commit = off")
        self.connection.execute(
            f"DO $$ BEGIN FOR i IN {self.next_id}..{last} LOOP INSERT INTO measurements {one};"
            " COMMIT; END LOOP; END $$".encode()
        )
        self.next_id = last + 1

    def stream(self, write: Callable[[], None], rows: int) -> tuple[float, float]:
        """Rows a second of ours and of pg_recvlogical, over the same WAL."""
        ours, theirs = [], []
        for _ in range(ROUNDS):
            capture = self.capture({"snapshot.mode": "no_data"})
            self.connection.execute("SELECT pg_create_logical_replication_slot('theirs', 'pgoutput')")
            CaptureThread(*capture).until_streaming().stop()
            write()
            end = self.wal_end()
            self.insert(1)  # something behind the end, by which pg_recvlogical sees that it has come there
            theirs.append(rows / self.recvlogical(end))
            ours.append(rows / self.drain(capture, end))
            self.connection.execute("SELECT pg_drop_replication_slot('theirs')")
            self.connection.execute("SELECT pg_drop_replication_slot(%s)", [self.slot(capture)])
            self.connection.execute("CHECKPOINT")
        return max(ours), max(theirs)

    def drain(self, capture: tuple[CaptureOptions, Path], end: Lsn) -> float:
        """Seconds from the start of the stream to the commit of the last record."""
        running = CaptureThread(*capture).until_streaming()
        begun = time.perf_counter()
        running.until_committed(end)
        seconds = time.perf_counter() - begun
        running.stop()
        return seconds

    def recvlogical(self, end: Lsn) -> float:
        """Seconds that Postgres' own tool takes for the same."""
        begun = time.perf_counter()
        subprocess.run(
            [
                str(self.server.bin_path / "pg_recvlogical"),
                *("-d", self.database, "--slot", "theirs", "--start", "--no-loop", "-f", "/dev/null"),
                *("-o", "proto_version=1", "-o", f"publication_names={PUBLICATION}", "--endpos", str(end)),
            ],
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - begun

    def snapshot(self) -> tuple[float, float]:
        """Rows a second of ours and of psql's \\copy, over the same table."""
        row = self.connection.execute("SELECT count(*) FROM measurements").fetchone()
        assert row is not None
        self.connection.execute("VACUUM (FREEZE, ANALYZE) measurements")
        ours, theirs = [], []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            subprocess.run(
                [
                    str(self.server.bin_path / "psql"),
                    *("-X", "-q", "-d", self.database),
                    *("-c", "\\copy measurements to '/dev/null' (format binary)"),
                ],
                check=True,
                capture_output=True,
            )
            theirs.append(row[0] / (time.perf_counter() - begun))
            capture = self.capture({"snapshot.mode": "initial_only"})
            ours.append(row[0] / self.read(capture))
        return max(ours), max(theirs)

    @staticmethod
    def read(capture: tuple[CaptureOptions, Path]) -> float:
        """Seconds from the start of the snapshot to the commit of the last record."""
        running = CaptureThread(*capture)
        running.until(lambda: running.capture.phase != "starting")
        begun = time.perf_counter()
        running.join()
        return time.perf_counter() - begun

    def capture(self, settings: dict[str, str]) -> tuple[CaptureOptions, Path]:
        """A new capture with a log of its own."""
        self.captures += 1
        name = f"bench{self.captures}"
        properties = {
            **from_url(self.database),
            "topic.prefix": name,
            "slot.name": name,
            "table.include.list": "public.measurements",
            "status.update.interval.ms": "100",
            **settings,
        }
        return CaptureOptions.parse(properties, name=name), self.folder / name

    @staticmethod
    def slot(capture: tuple[CaptureOptions, Path]) -> str:
        return capture[0].slot.name

    def wal_end(self) -> Lsn:
        row = self.connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        return Lsn.parse(row[0])
