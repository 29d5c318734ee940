"""The stream: from CopyData to the log, and back to the server what has become durable.

One thread reads, encodes and appends; the sink's committer makes it durable. Invariants:
- only a position that the log holds durably is confirmed, so the slot never stands ahead of the log;
- a position is always the end of a transaction, or a keepalive's while nothing is in flight;
- Relation messages carry LSN 0 and confirm nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import Final

import psycopg

from capture.envelope import COMMITTED, NEEDS_PYTHON, Encoder, EnvelopeError
from capture.errors import CaptureError
from capture.lsn import Lsn
from capture.options import CaptureOptions
from capture.postgres import pgoutput
from capture.postgres.connection import Connection
from capture.postgres.log_sink import LogSink
from capture.postgres.pgoutput import XLOG_DATA_SIZE
from capture.postgres.position import HiddenTables, Position
from capture.postgres.relation_tracker import RelationTracker
from capture.postgres.replication import KEEPALIVE, XLOG_DATA, ReplicationStream
from capture.postgres.wake import Wake

log = logging.getLogger(__name__)

# Encoded bytes that are appended in the middle of a drain; an open transaction is spilled beyond the second.
_APPEND_BYTES: Final = 4 * 1024 * 1024
_SPILL_BYTES: Final = 16 * 1024 * 1024
# The nap under load, and what counts as load: many messages at once, or wake-ups in quick succession.
_NAP_S: Final = 0.004
_LOAD_MESSAGES: Final = 200
_QUICK_S: Final = 0.001
_QUICK_WAKES: Final = 8
# Reads (of some 16 KiB each) between two looks at the clock in the middle of a drain.
_READS_BETWEEN_LOOKS: Final = 16
# What became durable is confirmed at the latest after this, long before the next status is due.
_CONFIRM_S: Final = 0.5


class Streaming:
    """One started stream until it is stopped or breaks."""

    def __init__(
        self,
        stream: ReplicationStream,
        catalog: Connection,
        encoder: Encoder,
        tracker: RelationTracker,
        sink: LogSink,
        position: Position,
        options: CaptureOptions,
        *,
        wake: Wake,
        stop: Wake,
        sender_timeout_s: float,
    ) -> None:
        self.position = position
        self._stream = stream
        self._catalog = catalog
        self._encoder = encoder
        self._tracker = tracker
        self._sink = sink
        self._wake = wake
        self._stop = stop
        interval_s = options.slot.status_interval_ms / 1000
        self._status_s = min(interval_s, sender_timeout_s / 4) if sender_timeout_s > 0 else interval_s
        self._status_due = self._confirm_due = 0.0
        self._confirmed = Lsn(0)
        self._reply_wanted = False
        self._end_lsn = position.lsn.value
        self._hide(())

    @property
    def received(self) -> Lsn:
        """How far the server has sent."""
        return Lsn(max(self._stream.received, self._end_lsn))

    @property
    def held(self) -> Lsn:
        """How far the log has all there is: as far as `received` while nothing is in flight.

        For the lag that people see; a position to confirm is `_follow_keepalive`'s.
        """
        received = self.received
        if self._in_flight or not self._sink.idle:
            return self._sink.committed_lsn
        return max(received, self._sink.committed_lsn)

    @property
    def _in_flight(self) -> bool:
        encoder = self._encoder
        return bool(encoder.in_transaction or self._sink.has_open or encoder.pending_bytes)

    def run(self) -> None:
        """Stream until `stop` is set; raises CaptureError or psycopg.Error when it breaks."""
        quick_wakes = 0
        while not self._stop.is_set():
            messages = self._drain()
            self._append()
            self._answer()
            if messages >= _LOAD_MESSAGES or (messages and quick_wakes >= _QUICK_WAKES):
                self._stop.wait(_NAP_S)  # nothing else ends a nap: the committer would, all the time
                continue
            began = time.monotonic()
            self._wake.wait_for(self._stream.pgconn.socket, self._timeout_s(began))
            self._wake.clear()
            quick_wakes = quick_wakes + 1 if time.monotonic() - began < _QUICK_S else 0
        self._finish()

    # --- the hot path ---

    def _drain(self) -> int:
        """Take everything that has arrived, until a read brings nothing new; how many messages it was."""
        pgconn, sink = self._stream.pgconn, self._sink
        consume, get, feed = pgconn.consume_input, pgconn.get_copy_data, self._encoder.feed
        messages = reads = 0
        while True:
            consume()
            now_ns = time.time_ns()
            spilled = sink.has_open
            before = messages
            while True:
                size, data = get(1)
                if size <= 0:
                    break
                messages += 1
                kind = data[0]
                if kind == XLOG_DATA:
                    try:
                        status = feed(data, now_ns)
                        if status == NEEDS_PYTHON:
                            self._special(data, now_ns)
                        elif spilled and status == COMMITTED:
                            sink.complete_open()
                            spilled = False
                    except (EnvelopeError, pgoutput.PgOutputError) as error:
                        raise _unreadable(error) from error
                elif kind == KEEPALIVE:
                    self._keepalive(data)
            if size < 0:
                raise self._stream.ended()
            if messages == before:
                return messages
            reads += 1
            if self._encoder.pending_bytes >= _APPEND_BYTES or reads % _READS_BETWEEN_LOOKS == 0:
                if self._stop.is_set():
                    return messages
                self._append()
                self._answer()

    def _special(self, data: memoryview, now_ns: int) -> None:
        """What the encoder leaves to Python: descriptions, their first changes, and logical messages."""
        message = pgoutput.parse(data[XLOG_DATA_SIZE:])
        if isinstance(message, pgoutput.Relation):
            self._tracker.describe(message, self._encoder)
        elif isinstance(message, pgoutput.Message):
            self._message(message, now_ns)
        elif isinstance(message, pgoutput.Insert | pgoutput.Update | pgoutput.Delete):
            self._first_change([message.relation_oid], data, now_ns)
        elif isinstance(message, pgoutput.Truncate):
            self._first_change(message.relation_oids, data, now_ns)

    def _first_change(self, oids: Sequence[int], data: memoryview, now_ns: int) -> None:
        """Plan relations that were described since their last change, then encode this one."""
        planned = self._tracker.plan_changes(oids, self._catalog, self._encoder)
        if not planned or self._encoder.feed(data, now_ns) == NEEDS_PYTHON:
            raise CaptureError(
                "the server sent a change of a relation that it has not described",
                "The stream is opened again.",
                retry=True,
            )

    def _message(self, message: pgoutput.Message, now_ns: int) -> None:
        # The LSN of a message that stands outside of transactions is the end of its record, and it is sent
        # again to whoever starts before that.
        if not message.transactional and message.lsn.value <= self._encoder.resume_lsn:
            return
        self._tracker.emit(message, self._encoder, now_ns)

    # --- to the log ---

    def _append(self) -> None:
        """Append what is complete and hand it over; spill an open transaction that has grown large."""
        encoder, sink = self._encoder, self._sink
        self._end_lsn = max(self._end_lsn, encoder.commit_end_lsn)
        if encoder.pending_bytes:
            outputs = encoder.take(include_open=encoder.pending_bytes >= _SPILL_BYTES)
            if outputs:
                sink.append(outputs)
        if sink.has_complete:
            self._hand_over()
        while sink.overfull:
            self._answer()
            self._wake.wait(0.1)
            self._wake.clear()

    def _hand_over(self) -> None:
        """Have all that is complete committed, with the position behind it."""
        hidden = self.position.hidden
        self.position = self.position.advanced(Lsn(self._end_lsn), self._encoder.last_commit_lsn)
        if self.position.hidden != hidden:
            self._hide(hidden)
        self._sink.hand_over(self.position)

    def _hide(self, before: Iterable[HiddenTables]) -> None:
        """Hide what tables' own snapshots saw; show again what the stream has passed."""
        hidden = {oid: tables.snapshot for tables in self.position.hidden for oid in tables.relations}
        for tables in before:
            for oid in tables.relations - hidden.keys():
                self._encoder.unhide(oid)
        for oid, snapshot in hidden.items():
            self._encoder.hide(oid, snapshot.sees)

    # --- to the server ---

    def _keepalive(self, data: memoryview) -> None:
        if self._stream.keepalive(data):
            self._reply_wanted = True

    def _follow_keepalive(self) -> None:
        """Let the slot follow: with nothing in flight, all that the server has sent so far is in the log."""
        if not self._in_flight:
            self._end_lsn = max(self._end_lsn, self._stream.received)
        if self._end_lsn > self.position.lsn.value and not self._encoder.pending_bytes:
            self._hand_over()

    def _answer(self) -> None:
        """Send the server a status if it is due or wanted, or if there is something to confirm."""
        now = time.monotonic()
        if now >= self._status_due or self._reply_wanted:
            self._follow_keepalive()
        elif self._sink.committed_lsn <= self._confirmed or now < self._confirm_due:
            return
        self._confirmed = max(self._sink.committed_lsn, self._confirmed)
        self._stream.confirm(self._confirmed)
        self._status_due, self._confirm_due = now + self._status_s, now + _CONFIRM_S
        self._reply_wanted = False

    def _timeout_s(self, now: float) -> float:
        confirms = self._sink.committed_lsn > self._confirmed
        return max(0.0, (self._confirm_due if confirms else self._status_due) - now)

    def _finish(self) -> None:
        """Stop in order: what is complete becomes durable and is confirmed."""
        self._append()
        self._sink.flush()
        try:
            self._stream.confirm(self._sink.committed_lsn)
            self._stream.stop()
        except psycopg.Error as error:
            log.info("the stream was already closed", extra={"error": str(error)})


def _unreadable(error: Exception) -> CaptureError:
    return CaptureError(
        f"the stream cannot be read: {error}",
        "If it says which column, exclude that column (column.exclude.list) or choose another handling mode; "
        "otherwise report it.",
    )
