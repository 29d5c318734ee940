"""The replication slot: what the server says of it, how it is made, and dropped."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg.pq import ExecStatus

from capture.errors import CaptureError
from capture.lsn import Lsn
from capture.options import CaptureOptions
from capture.postgres.connection import Connection, failure, literal, quoted
from capture.postgres.wake import Wake

log = logging.getLogger(__name__)

_PARENTHESES: Final = 150000  # CREATE_REPLICATION_SLOT … ( option, … )
_FAILOVER: Final = 170000
_REMIND_S: Final = 10.0
_TICK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot as pg_replication_slots shows it; what its server's version lacks is None."""

    name: str
    plugin: str | None
    slot_type: str
    database: str | None
    temporary: bool
    active_pid: int | None
    restart_lsn: Lsn | None
    confirmed_flush_lsn: Lsn | None
    wal_status: str | None
    safe_wal_bytes: int | None
    invalidation_reason: str | None
    synced: bool

    @property
    def lost(self) -> bool:
        """Whether the server has removed WAL that the slot needed, or invalidated it otherwise."""
        return self.wal_status == "lost" or self.invalidation_reason is not None


@dataclass(frozen=True, slots=True)
class NewSlot:
    """A slot that was just made; the snapshot lives until the next command on its connection."""

    consistent_point: Lsn
    snapshot_name: str


def read_slot(connection: Connection, name: str) -> Slot | None:
    """The slot with this name, of any kind and database; None if there is none."""
    query = "SELECT to_jsonb(s) FROM pg_replication_slots s WHERE slot_name = %s"
    row = connection.execute(query, [name]).fetchone()
    return None if row is None else _slot(row[0])


def _slot(row: dict[str, Any]) -> Slot:
    def lsn(name: str) -> Lsn | None:
        text = row.get(name)
        return Lsn.parse(text) if text else None

    return Slot(
        name=row["slot_name"],
        plugin=row["plugin"],
        slot_type=row["slot_type"],
        database=row["database"],
        temporary=row["temporary"],
        active_pid=row["active_pid"],
        restart_lsn=lsn("restart_lsn"),
        confirmed_flush_lsn=lsn("confirmed_flush_lsn"),
        wal_status=row.get("wal_status"),
        safe_wal_bytes=row.get("safe_wal_size"),
        invalidation_reason=row.get("invalidation_reason"),
        synced=bool(row.get("synced", False)),
    )


def create_slot(replication: Connection, options: CaptureOptions, stop: Wake) -> NewSlot | None:
    """Make the slot and export its snapshot; None if `stop` was set meanwhile.

    The server first waits for all transactions that run now, in every database of the cluster, so this may
    take long. The connection's next command, or its end, ends the snapshot.
    """
    version = replication.info.server_version
    settings = "(SNAPSHOT 'export')" if version >= _PARENTHESES else "EXPORT_SNAPSHOT"
    if options.slot.failover and version >= _FAILOVER:
        settings = "(SNAPSHOT 'export', FAILOVER true)"
    command = f"CREATE_REPLICATION_SLOT {quoted(options.slot.name)} LOGICAL pgoutput {settings}"
    pgconn = replication.pgconn
    pgconn.send_query(command.encode())
    pgconn.flush()
    began = reminded = time.monotonic()
    while pgconn.is_busy():
        if stop.is_set():
            return None
        stop.wait_for(pgconn.socket, _TICK_S)
        pgconn.consume_input()
        if time.monotonic() - reminded > _REMIND_S:
            reminded = time.monotonic()
            log.warning(
                "the new slot waits for transactions that were running when it was asked for",
                extra={"slot": options.slot.name, "waited_s": round(reminded - began)},
            )
    result = pgconn.get_result()
    while pgconn.get_result() is not None:
        pass
    if result is None or result.status != ExecStatus.TUPLES_OK:
        error = psycopg.errors.error_from_result(result) if result is not None else psycopg.OperationalError()
        raise failure(error, f'cannot create replication slot "{options.slot.name}"') from error
    point, snapshot = result.get_value(0, 1), result.get_value(0, 2)
    if point is None or snapshot is None:
        raise CaptureError(f'slot "{options.slot.name}" came without a snapshot', "Start again.", retry=True)
    log.info("slot created", extra={"slot": options.slot.name, "lsn": point.decode()})
    return NewSlot(Lsn.parse(point.decode()), snapshot.decode())


def drop_slot(connection: Connection, name: str) -> None:
    """Drop the slot if it is there; its walsender must be gone."""
    query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
    connection.execute(query, [name])
    log.info("slot dropped", extra={"slot": name})


def older_than_publication(slot: Slot, options: CaptureOptions) -> CaptureError:
    """The publication is missing: what was changed since it went, or before it came, cannot be decoded."""
    return CaptureError(
        f'slot "{slot.name}" needs publication "{options.publication.name}", which is gone: made now, it '
        "is younger than the slot, and the changes in between are not sent",
        f"Drop the slot: SELECT pg_drop_replication_slot({literal(slot.name)}); and set "
        "snapshot.mode=when_needed, so that both are made and the tables read anew.",
    )


def gone(slot: Slot | None, options: CaptureOptions, position: Lsn, server: Lsn) -> CaptureError | None:
    """Why the stream cannot go on at `position`; None if it can.

    The server never sends what the slot has confirmed, so a slot ahead of the position means lost changes:
    it was used by somebody else, or dropped and made anew.
    """
    name = options.slot.name
    anew = (
        "The changes since then are gone from the server, so the tables have to be read anew: set "
        "snapshot.mode=when_needed and start again."
    )
    if slot is None:
        return CaptureError(
            f'replication slot "{name}" is gone, and with it all changes since {position}', anew
        )
    if slot.lost:
        reason = slot.invalidation_reason or "its WAL was removed"
        drop = f"SELECT pg_drop_replication_slot({literal(name)});"
        return CaptureError(f'the server has invalidated slot "{name}" ({reason})', f"Drop it: {drop} {anew}")
    confirmed = slot.confirmed_flush_lsn
    if confirmed is not None and confirmed > position:
        return CaptureError(
            f'slot "{name}" stands at {confirmed} and sends nothing older, but the log ends at {position}: '
            "somebody else read from the slot, or made it anew",
            anew,
        )
    if position > server:
        return CaptureError(
            f"the log was captured up to {position}, but the server's WAL ends at {server}: it was restored "
            "from a backup, or it is another server",
            "Check database.hostname, or capture into a new data directory.",
        )
    return None
