"""A capture in a thread of the test's own process, for what needs a hand inside."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

import psycopg

from capture.log import Log
from capture.lsn import Lsn
from capture.options import CaptureOptions, from_url
from capture.postgres.postgres_capture import PostgresCapture
from capture.postgres.wake import Wake

WAIT_S = 60.0


def options_for(dsn: str, name: str, settings: Mapping[str, str] | None = None) -> CaptureOptions:
    """Options of a capture whose slot is its own."""
    database = dsn.rsplit("/", 1)[1]
    properties = {
        **from_url(dsn),
        "topic.prefix": "shop",
        "slot.name": f"{database}_{name}".lower(),
        "status.update.interval.ms": "200",
        "retriable.restart.connector.wait.ms": "500",
        **(settings or {}),
    }
    return CaptureOptions.parse(properties, name=name)


class CaptureThread:
    """One life of a capture."""

    def __init__(self, options: CaptureOptions, data: Path) -> None:
        self._stop, self._wake = Wake(), Wake()
        self._log = Log.open(data, create=True)
        self._dsn = options.connection
        self.error: BaseException | None = None
        try:
            self.capture = PostgresCapture(options, self._log, stop=self._stop, wake=self._wake)
        except BaseException:
            self._log.close()
            raise
        self._thread = threading.Thread(target=self._run, name=options.name)
        self._thread.start()

    def __enter__(self) -> CaptureThread:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def until_streaming(self) -> CaptureThread:
        """Wait until START_REPLICATION was answered."""
        self.until(lambda: self.capture.phase == "streaming")
        return self

    def until_committed(self, end: Lsn, timeout_s: float = WAIT_S) -> None:
        """Wait until everything before `end` is durable in the log."""
        self.until(lambda: self.capture.committed_lsn >= end, timeout_s)

    def until_caught_up(self, dsn: str) -> None:
        """Wait until the log holds all that was committed before the call."""
        with psycopg.connect(dsn, autocommit=True) as connection:
            row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        self.until_streaming().until_committed(Lsn.parse(row[0]))

    def until(self, done: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
        """Wait until `done`; raises what the capture raised."""
        deadline = time.monotonic() + timeout_s
        while not done():
            if self.error is not None:
                raise self.error
            assert self._thread.is_alive(), "the capture has ended"
            assert time.monotonic() < deadline, f"still {self.capture.phase} after {timeout_s} s"
            time.sleep(0.005)

    def join(self, timeout_s: float = WAIT_S) -> None:
        """Wait for its end; raises what it raised."""
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), f"still {self.capture.phase} after {timeout_s} s"
        self._end()
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """End it in order; raises what it raised."""
        self._stop.set()
        self._wake.set()
        self.join()

    def _run(self) -> None:
        try:
            self.capture.run()
        except BaseException as error:
            self.error = error

    def _end(self) -> None:
        self._stop.set()
        self._wake.set()
        self._thread.join(WAIT_S)
        self._log.close()
