"""The replication connection: CopyBoth over libpq, drained until it is dry.

The walsender sends each message by itself; a reader that wakes for each slows Postgres down. So: idle, wait
for the socket and wake at once; under load, nap for a few milliseconds and drain what has gathered.
"""

from __future__ import annotations

import logging
import select
import struct
import time
from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg.pq import ExecStatus

from capture.lsn import Lsn
from capture.options import CaptureOptions
from capture.postgres.connection import Connection, failure, literal, quoted
from capture.postgres.wake import Wake

log = logging.getLogger(__name__)

XLOG_DATA: Final = 0x77  # w
KEEPALIVE: Final = 0x6B  # k
_KEEPALIVE: Final = struct.Struct(">cQqB")
_STATUS: Final = struct.Struct(">cQQQqB")
_EPOCH_2000_US: Final = 946_684_800_000_000
_MESSAGES: Final = 140000  # the option `messages` of pgoutput
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 5.0
_FIRST_WAIT_S: Final = 0.2
_SLOT_IN_USE: Final = "55006"  # object_in_use


class ReplicationStream:
    """A started stream. `drain` is the hot path and lives with its caller; everything else is here."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pgconn = connection.pgconn
        self.received = 0  # the highest position the server has sent everything before

    def start(self, options: CaptureOptions, position: Lsn, stop: Wake) -> None:
        """START_REPLICATION; raises psycopg.Error with what the server says, or when stopped meanwhile."""
        settings: list[tuple[str, str]] = [
            ("proto_version", "1"),
            ("publication_names", quoted(options.publication.name)),
        ]
        if self.connection.info.server_version >= _MESSAGES:
            settings.append(("messages", "true"))
        settings += options.slot.stream_parameters
        command = (
            f"START_REPLICATION SLOT {quoted(options.slot.name)} LOGICAL {position} ({_joined(settings)})"
        )
        pgconn = self.pgconn
        pgconn.send_query(command.encode())
        pgconn.flush()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while pgconn.is_busy():
            if stop.is_set() or time.monotonic() > deadline:
                raise psycopg.OperationalError("START_REPLICATION was not answered")
            stop.wait_for(pgconn.socket, 1.0)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None or result.status != ExecStatus.COPY_BOTH:
            while pgconn.get_result() is not None:
                pass
            raise (
                psycopg.errors.error_from_result(result) if result else psycopg.OperationalError("no answer")
            )
        pgconn.nonblocking = 1
        self.received = position.value

    def start_when_free(self, options: CaptureOptions, position: Lsn, stop: Wake) -> bool:
        """START_REPLICATION, again while the slot is in use; false if stopped. Raises CaptureError."""
        slot = options.slot
        deadline = time.monotonic() + slot.max_retries * slot.retry_delay_ms / 1000
        wait_s = _FIRST_WAIT_S
        while not stop.is_set():
            try:
                self.start(options, position, stop)
                return True
            except psycopg.Error as error:
                if stop.is_set():
                    return False
                if error.sqlstate != _SLOT_IN_USE or time.monotonic() > deadline:
                    raise failure(error, f'cannot stream from slot "{slot.name}"') from error
                log.info("slot in use", extra={"slot": slot.name, "retry_in_s": wait_s})
                stop.wait(wait_s)
                wait_s = min(wait_s * 2, max(slot.retry_delay_ms / 1000, _FIRST_WAIT_S))
        return False

    def keepalive(self, data: memoryview) -> bool:
        """Take note of a keepalive; whether the server wants an answer now."""
        _, wal_end, _, reply = _KEEPALIVE.unpack_from(data)
        self.received = max(self.received, wal_end)
        return bool(reply)

    def confirm(self, lsn: Lsn) -> None:
        """Tell the server that everything before `lsn` is durable here."""
        microseconds = time.time_ns() // 1000 - _EPOCH_2000_US
        written = max(self.received, lsn.value)
        message = _STATUS.pack(b"r", written, lsn.value, lsn.value, microseconds, 0)
        while self.pgconn.put_copy_data(message) == 0:
            self._flush()
        self._flush()

    def ended(self) -> psycopg.Error:
        """What the server said when it ended the stream."""
        result = self.pgconn.get_result()
        if result is not None and result.status == ExecStatus.FATAL_ERROR:
            return psycopg.errors.error_from_result(result)
        return psycopg.OperationalError("the server ended the stream")

    def stop(self) -> None:
        """End the stream in order: what is still on its way comes again next time."""
        pgconn = self.pgconn
        pgconn.put_copy_end()
        self._flush()
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while time.monotonic() < deadline:
            pgconn.consume_input()
            size = 1
            while size > 0:
                size, _ = pgconn.get_copy_data(1)
            if size < 0:
                break
            self._wait_readable(0.1)
        # CopyDone is answered; two results (COPY, START_REPLICATION) remain.
        pgconn.nonblocking = 0
        while time.monotonic() < deadline:
            if pgconn.is_busy():
                self._wait_readable(0.1)
                pgconn.consume_input()
            elif pgconn.get_result() is None:
                return

    def _flush(self) -> None:
        while self.pgconn.flush():
            socket = self.pgconn.socket
            select.select([socket], [socket], [], 1.0)
            self.pgconn.consume_input()

    def _wait_readable(self, timeout_s: float) -> None:
        select.select([self.pgconn.socket], [], [], timeout_s)


def _joined(settings: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{quoted(name)} {literal(value)}" for name, value in settings)
