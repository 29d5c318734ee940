"""What a capture publishes about itself, about once a second while things change."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Final

import psycopg

from capture.envelope import Encoder
from capture.log import Catalog
from capture.postgres.connection import Connection
from capture.postgres.log_sink import LogSink
from capture.postgres.snapshot import Snapshot, wal_end
from capture.postgres.streaming import Streaming

log = logging.getLogger(__name__)

_INTERVAL_S: Final = 1.0
_IDLE_INTERVAL_S: Final = 10.0


class StatusBoard:
    """Gathers phase, progress and lag, and puts them into the catalog from a thread of its own."""

    def __init__(self, capture: str, catalog: Catalog, sink: LogSink) -> None:
        self.phase = "starting"
        self._capture = capture
        self._catalog = catalog
        self._sink = sink
        self._error: str | None = None
        self._snapshot: Snapshot | None = None
        self._read: dict[str, dict[str, object]] = {}
        self._streaming: tuple[Streaming, Encoder, Connection] | None = None
        self._rows = 0  # of sessions that are over
        self._published: dict[str, object] = {}
        self._published_at = 0.0
        self._server: deque[tuple[float, int]] = deque()
        self._asked_at = 0.0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to publish."""
        self._publish()
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Publish once more, then no more."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._publish()

    def reading(self, snapshot: Snapshot) -> None:
        """A snapshot begins."""
        self._snapshot, self.phase, self._error = snapshot, "snapshot", None

    def streaming(self, streaming: Streaming, encoder: Encoder, catalog: Connection) -> None:
        """The stream begins."""
        self._rows = self._rows_total()
        self._note_progress(done=True)
        self._snapshot = None
        self._streaming = streaming, encoder, catalog
        self.phase, self._error = "streaming", None

    def interrupted(self, error: str) -> None:
        """The session broke and will be tried again."""
        self._rows = self._rows_total()
        self._snapshot = self._streaming = None
        self.phase, self._error = "starting", error

    def failed(self, error: str) -> None:
        """The capture ends."""
        self.phase, self._error = "failed", error

    def _run(self) -> None:
        while not self._stopping.wait(_INTERVAL_S):
            self._publish()

    def _publish(self) -> None:
        status = self._gathered()
        # Said again while nothing changes: who reads it takes a capture that falls silent for dead.
        if status != self._published or time.monotonic() - self._published_at >= _IDLE_INTERVAL_S:
            try:
                self._catalog.put_status(self._capture, status)
            except OSError as error:  # a full disk: the log says so louder, and may get space again
                log.debug("status not written", extra={"error": str(error)})
                return
            self._published = status
            self._published_at = time.monotonic()

    def _gathered(self) -> dict[str, object]:
        self._note_progress(done=False)
        confirmed = self._sink.committed_lsn
        status: dict[str, object] = {
            "phase": self.phase,
            "tables": dict(self._read),
            "confirmed_lsn": str(confirmed),
            "rows_total": self._rows_total(),
        }
        if self._streaming is not None:
            streaming, _, catalog = self._streaming
            status["lsn"] = str(streaming.received)
            status["lag_bytes"], status["lag_seconds"] = self._lag(streaming, catalog)
        if self._error is not None:
            status["error"] = self._error
        return status

    def _note_progress(self, *, done: bool) -> None:
        if self._snapshot is None:
            return
        for each in self._snapshot.progress():
            self._read[each.topic] = {
                "rows_done": each.rows_done,
                "rows_estimated": each.rows_done if each.done else max(each.rows_estimated, each.rows_done),
                "done": done or each.done,
            }

    def _rows_total(self) -> int:
        rows = self._rows
        if self._snapshot is not None:
            rows += sum(each.rows_done for each in self._snapshot.progress())
        if self._streaming is not None:
            rows += sum(self._streaming[1].counters.values())
        return rows

    def _lag(self, streaming: Streaming, catalog: Connection) -> tuple[int, float]:
        """How far the log is behind the server's WAL: bytes, and seconds since that was where the log is."""
        now = time.monotonic()
        held = streaming.held
        behind = bool(self._server) and held.value < self._server[-1][1]
        moved = bool(self._server) and streaming.received.value > self._server[-1][1]
        if behind or moved or now - self._asked_at >= _IDLE_INTERVAL_S:
            try:
                self._server.append((now, wal_end(catalog).value))
                self._asked_at = now
            except psycopg.Error:
                pass  # the stream will notice as well
        reached = 0.0
        while self._server and self._server[0][1] <= held.value:
            reached = self._server.popleft()[0]
        if not self._server:
            self._server.append((now, held.value))
            return 0, 0.0
        since = reached or self._server[0][0]
        return max(0, self._server[-1][1] - held.value), round(now - since, 1)
