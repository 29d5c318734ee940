"""From encoder output to the durable log: appended at once, committed by a thread of its own.

The committer runs back to back: whatever was handed over while it synced goes with its next commit, which is
a group commit without a timer. What it commits is always a state between two transactions of the source.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from capture.envelope import Output
from capture.errors import CaptureError
from capture.log import LogError, PartitionWriter, Writer
from capture.log.retention import enforce
from capture.lsn import ZERO
from capture.postgres.position import Position
from capture.postgres.wake import Wake

log = logging.getLogger(__name__)

# How often old segments are looked for: Kafka's log.retention.check.interval.ms.
RETENTION_INTERVAL_S: Final = 300.0
# What may be appended and not yet synced before the reader has to wait.
BACKLOG_BYTES: Final = 64 * 1024 * 1024


@dataclass(slots=True)
class _Handover:
    """What the next commit moves."""

    position: Position
    watermarks: dict[PartitionWriter, int] = field(default_factory=dict)
    appended_bytes: int = 0


class LogSink:
    """Appends for one thread at a time, commits in the background. `wake` is set after each commit."""

    def __init__(
        self,
        writer: Writer,
        topic_config: Mapping[str, str],
        wake: Wake,
        *,
        retention_interval_s: float = RETENTION_INTERVAL_S,
    ) -> None:
        self._writer = writer
        self._topic_config = topic_config
        self._wake = wake
        self._retention_interval_s = retention_interval_s
        self._retention_due = 0.0
        # Whoever moves watermarks or log starts holds it: the committer, or a snapshot's hand-over.
        self._moving = threading.Lock()
        self._partitions: dict[str, PartitionWriter] = {}
        self._appending = threading.Lock()
        # Offsets up to which complete transactions were appended, and those appended for an open one.
        self._complete: dict[PartitionWriter, int] = {}
        self._open: dict[PartitionWriter, int] = {}
        self._appended_bytes = 0
        self._changed = threading.Condition()
        self._handover: _Handover | None = None
        self._committing = False
        self._backlog_bytes = 0
        self._stopping = False
        self._error: Exception | None = None
        self._committer: threading.Thread | None = None
        self.committed_lsn = ZERO

    def partition(self, topic: str) -> PartitionWriter:
        """The partition of a topic, which is created if it is new."""
        found = self._partitions.get(topic)
        if found is None:
            try:
                created = self._writer.log.catalog.create_topic(
                    topic, capture=self._writer.capture, config=self._topic_config
                )
                found = self._writer.partition(created)
            except LogError as error:
                raise from_log(error) from error
            self._partitions[topic] = found
        return found

    # --- appending ---

    def append(self, outputs: Iterable[Output]) -> None:
        """Append batches; those of an open transaction stay invisible until `complete_open`."""
        with self._appending:
            for (topic, committed), group in groupby(
                outputs, key=lambda output: (output.topic, output.committed)
            ):
                batches = [output.batch for output in group]
                partition = self.partition(topic)
                try:
                    end = self._writer.append(partition, batches)
                except LogError as error:
                    raise from_log(error) from error
                self._appended_bytes += sum(map(len, batches))
                (self._complete if committed else self._open)[partition] = end

    def complete_open(self) -> None:
        """The transaction whose records were appended while it was open has committed."""
        self._complete.update(self._open)
        self._open.clear()

    @property
    def has_complete(self) -> bool:
        """Whether there is something to hand over."""
        return bool(self._complete)

    @property
    def has_open(self) -> bool:
        """Whether records of an open transaction were appended."""
        return bool(self._open)

    def discard_uncommitted(self) -> None:
        """Cut everything that was appended and not committed; call `flush` first to keep what is complete."""
        with self._appending:
            try:
                for partition in {*self._open, *self._complete}:
                    self._writer.truncate_uncommitted(partition)
            except LogError as error:
                raise from_log(error) from error
            self._open.clear()
            self._complete.clear()
            self._appended_bytes = 0

    # --- committing ---

    def commit(self, position: Position, topics: Iterable[str] = ()) -> None:
        """Commit at once, in the caller's thread: the position, and all that was appended to these topics."""
        partitions = [self._partitions[topic] for topic in topics]
        watermarks = {p: self._complete.pop(p) for p in partitions if p in self._complete}
        try:
            with self._moving:
                self._writer.commit(position.to_json(), watermarks)
        except LogError as error:
            raise from_log(error) from error
        self.committed_lsn = position.lsn
        self._appended_bytes = 0

    def hand_over(self, position: Position) -> None:
        """Have everything complete so far committed with this position, soon."""
        self._raise_error()
        with self._changed:
            if self._handover is None:
                self._handover = _Handover(position)
            self._handover.position = position
            self._handover.watermarks.update(self._complete)
            self._handover.appended_bytes += self._appended_bytes
            self._backlog_bytes += self._appended_bytes
            self._appended_bytes = 0
            self._complete.clear()
            self._changed.notify_all()

    @property
    def overfull(self) -> bool:
        """Whether so much waits for its commit that the reader has to pause."""
        self._raise_error()
        return self._backlog_bytes + self._appended_bytes > BACKLOG_BYTES and self._backlog_bytes > 0

    @property
    def idle(self) -> bool:
        """Whether all that was handed over is committed (or never will be: `flush` raises then)."""
        with self._changed:
            return self._handover is None and not self._committing

    def flush(self) -> None:
        """Wait until all that was handed over is committed."""
        with self._changed:
            while self._error is None and (self._handover is not None or self._committing):
                self._changed.wait()
        self._raise_error()

    def start(self) -> None:
        """Start the committer."""
        self._committer = threading.Thread(target=self._run, name="committer", daemon=True)
        self._committer.start()

    def stop(self) -> None:
        """Commit what was handed over, then end the committer."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._committer is not None:
            self._committer.join()
            self._committer = None
        self._stopping = False

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._handover is None and not self._stopping:
                    rest_s = self._retention_due - time.monotonic()
                    if rest_s <= 0:
                        break
                    self._changed.wait(rest_s)
                handover, self._handover = self._handover, None
                if handover is None and self._stopping:
                    return
                self._committing = True
            error: Exception | None = None
            try:
                with self._moving:
                    if handover is not None:
                        self._writer.commit(handover.position.to_json(), handover.watermarks)
                    self._retain()
            except LogError as raised:
                error = from_log(raised)
                error.__cause__ = raised
            except Exception as raised:  # noqa: BLE001 - whoever waits for the commit raises it
                error = raised
            with self._changed:
                self._committing = False
                self._error = error
                if handover is not None:
                    self._backlog_bytes -= handover.appended_bytes
                    if error is None:
                        self.committed_lsn = handover.position.lsn
                self._changed.notify_all()
            self._wake.set()
            if error is not None:
                return

    def _retain(self) -> None:
        """Delete the segments that the topics' retention lets go of, if it is time to look."""
        if time.monotonic() < self._retention_due:
            return
        for expired in enforce(self._writer, time.time_ns() // 1_000_000):
            log.info("old segments deleted", extra=expired._asdict())
        self._retention_due = time.monotonic() + self._retention_interval_s

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error


class LogFailure(CaptureError):
    """The log failed: its writer must be opened anew, so this process ends."""


def from_log(error: LogError) -> LogFailure:
    """The log's own words, which say what to do."""
    return LogFailure(str(error).rstrip("."), "", retry=error.retry_may_help)
