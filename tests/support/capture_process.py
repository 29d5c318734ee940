"""One capture as a test sees it: `python -m capture` beside it, its log read directly, without a gateway."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

from capture.log import Log, LogReader
from capture.lsn import Lsn
from capture.options import from_url
from protocol.records import Record, batches, records
from tests.support.process import Process, ProcessFailed

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60.0


class CaptureProcess:
    """A capture of one database; `settings` are Debezium's properties. Restart it as often as you like."""

    def __init__(
        self, dsn: str, data: Path, *, name: str = "shop", settings: Mapping[str, str] | None = None
    ) -> None:
        self.dsn = dsn
        self.data = data
        self.name = name
        database = dsn.rsplit("/", 1)[1]
        self.settings = {
            **from_url(dsn),
            "topic.prefix": "shop",
            "slot.name": f"{database}_{name}".lower(),
            "status.update.interval.ms": "200",
            **(settings or {}),
        }
        self.process: Process | None = None
        self.errors = data.parent / f"{data.name}.{name}.stderr"

    def __enter__(self) -> CaptureProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None:
            self.process.end()

    def start(self) -> None:
        """Start, or start again."""
        self.data.parent.mkdir(parents=True, exist_ok=True)
        options = self.data.parent / f"{self.data.name}.{self.name}.json"
        options.write_text(json.dumps(self.settings))
        command = [sys.executable, "-m", "capture", self.name, "--data", str(self.data)]
        self.process = Process(
            [*command, "--options-json", str(options)],
            errors=self.errors,
            environment={"PYTHONPATH": str(ROOT)},
        )

    def kill(self) -> None:
        """Kill -9."""
        assert self.process is not None
        self.process.kill()

    def stop(self) -> int:
        """End it in order; the exit code."""
        assert self.process is not None
        return self.process.end()

    def wait_for_snapshot(self, timeout_s: float = WAIT_S) -> None:
        """Wait until no table is left to read."""
        self._wait("no snapshot", lambda position: not position.get("pending"), timeout_s)

    def wait_until_caught_up(self, timeout_s: float = WAIT_S) -> None:
        """Wait until the log holds all that was committed before the call."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        target = Lsn.parse(row[0])
        self._wait(
            f"not caught up to {target}",
            lambda position: not position.get("pending") and Lsn.parse(position["lsn"]) >= target,
            timeout_s,
        )

    def position(self) -> dict[str, Any] | None:
        """The committed position."""
        if not (self.data / "catalog.sqlite").exists():
            return None
        try:
            log = Log.open(self.data)
        except Exception:  # being created
            return None
        try:
            row = log.catalog.capture(self.name)
        finally:
            log.close()
        found: dict[str, Any] | None = json.loads(row.position) if row and row.position else None
        return found

    def logged(self) -> list[dict[str, Any]]:
        """The lines of its log."""
        lines = self.errors.read_text().splitlines() if self.errors.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{")]

    def _wait(self, what: str, done: Any, timeout_s: float) -> None:
        assert self.process is not None
        deadline = time.monotonic() + timeout_s
        while True:
            position = self.position()
            if position is not None and done(position):
                return
            if self.process.returncode is not None or time.monotonic() > deadline:
                state = f"{what}: {position}, exit {self.process.returncode}"
                raise ProcessFailed(f"{state}\n{self.process.said()}")
            time.sleep(0.02)


def read_topics(data: Path) -> dict[str, list[Record]]:
    """All committed records of a log, by topic."""
    log = Log.open(data)
    try:
        reader = LogReader(log)
        reader.refresh()
        return {
            topic.name: list(_records(reader, topic.partitions[0].partition_id))
            for topic in reader.topics.values()
        }
    finally:
        log.close()


def schemas_of(data: Path) -> dict[int, str]:
    """All registered schema texts by id."""
    log = Log.open(data)
    try:
        found = {}
        for schema_id in range(1, 10_000):
            schema = log.schemas.by_id(schema_id)
            if schema is None:
                break
            found[schema_id] = schema.schema
        return found
    finally:
        log.close()


def _records(reader: LogReader, partition_id: int) -> Iterator[Record]:
    partition = reader.partition(partition_id)
    offset = partition.log_start_offset
    while (view := partition.read(offset, 1 << 20)) is not None:
        for position, header in batches(view):
            yield from records(view[position : position + header.size_bytes])
            offset = header.base_offset + header.last_offset_delta + 1
