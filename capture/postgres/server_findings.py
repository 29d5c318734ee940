"""What the server, the role and the slot lack before a database can be captured."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from capture.options import CaptureOptions
from capture.postgres.connection import Connection, literal, quoted
from capture.postgres.finding import ERROR, INFO, WARNING, Finding
from capture.postgres.publication import DISABLED, Publication
from capture.postgres.slot import Slot, read_slot

PLUGIN: Final = "pgoutput"
# A process that was just killed leaves its walsender behind for a moment.
_SLOT_WAIT_S: Final = 3.0
_SLOT_WAIT_STEP_S: Final = 0.1


def server_findings(connection: Connection) -> Iterator[Finding]:
    """Settings of the server that logical replication depends on."""
    settings: dict[str, str] = dict(
        connection.execute(
            "SELECT name, setting FROM pg_settings WHERE name IN ('wal_level', 'max_replication_slots',"
            " 'max_wal_senders', 'max_slot_wal_keep_size')"
        ).fetchall()
    )
    if settings["wal_level"] != "logical":
        yield Finding(
            ERROR,
            f"wal_level is {settings['wal_level']}, so changes cannot be decoded",
            "postgresql.conf",
            "ALTER SYSTEM SET wal_level = logical;\n-- then restart the server",
        )
    if settings.get("max_slot_wal_keep_size") == "-1":
        yield Finding(
            INFO,
            "max_slot_wal_keep_size is unlimited: while nobody reads, the slot keeps WAL without bound",
            "postgresql.conf",
            "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB';\nSELECT pg_reload_conf();",
        )
    senders = connection.execute("SELECT count(*) FROM pg_stat_replication").fetchone()
    if senders and senders[0] >= int(settings["max_wal_senders"]):
        yield Finding(
            ERROR,
            f"all {settings['max_wal_senders']} walsenders (max_wal_senders) are in use",
            "pg_stat_replication",
            f"ALTER SYSTEM SET max_wal_senders = {int(settings['max_wal_senders']) + 10};"
            "\n-- then restart the server",
        )


def role_findings(connection: Connection) -> Iterator[Finding]:
    """Whether the role may replicate; managed services grant it by membership."""
    row = connection.execute(
        "SELECT rolreplication OR rolsuper, rolname::text, EXISTS (SELECT FROM pg_roles m"
        " WHERE m.rolname IN ('rds_replication', 'rdsadmin', 'azure_pg_admin', 'cloudsqlsuperuser')"
        " AND pg_has_role(current_user, m.oid, 'MEMBER'))"
        " FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    if row is not None and not row[0] and not row[2]:
        yield Finding(
            ERROR,
            f"role {row[1]} may not replicate",
            "pg_roles.rolreplication",
            f"ALTER ROLE {quoted(row[1])} REPLICATION;",
        )


def slot_findings(
    connection: Connection, options: CaptureOptions, publication: Publication | None
) -> Iterator[Finding]:
    """Whether the slot can be made, or is ours to read."""
    name = options.slot.name
    slot = read_slot(connection, name)
    if slot is None:
        yield from _free_slot(connection)
        return
    where = f"pg_replication_slots, slot {name}"
    drop = f"SELECT pg_drop_replication_slot({literal(name)});"
    if slot.slot_type != "logical" or slot.plugin != PLUGIN:
        yield Finding(
            ERROR,
            f"slot {name} is {slot.slot_type}{f' with plugin {slot.plugin}' if slot.plugin else ''}, "
            f"not logical with plugin {PLUGIN}",
            where,
            f"{drop}\n-- or choose another slot.name",
        )
    elif slot.database != options.connection.dbname:
        yield Finding(
            ERROR,
            f"slot {name} belongs to database {slot.database}",
            where,
            f"-- choose another slot.name for {options.connection.dbname}, e. g. slot.name={name}_2",
        )
    elif slot.lost and options.snapshot.mode == "when_needed":
        return  # it is made anew, and the tables are read anew
    elif slot.lost:
        yield Finding(
            ERROR,
            f"slot {name} is lost ({slot.invalidation_reason or 'its WAL was removed'})",
            where,
            f"{drop}\n-- and set snapshot.mode=when_needed, so that the tables are read anew",
        )
    elif slot.synced:
        yield Finding(
            ERROR,
            f"slot {name} is synchronised from a primary and cannot be read here",
            where,
            "-- connect to the primary, or promote this standby",
        )
    elif publication is None and options.publication.autocreate != DISABLED:
        yield Finding(
            ERROR,
            f"slot {name} is older than the publication that it needs: changes in between cannot be decoded",
            where,
            f"{drop}\n-- it is made anew after the publication",
        )
    else:
        yield from _slot_in_use(connection, slot, where)


def _free_slot(connection: Connection) -> Iterator[Finding]:
    row = connection.execute(
        "SELECT count(*), current_setting('max_replication_slots')::int FROM pg_replication_slots"
    ).fetchone()
    if row is not None and row[0] >= row[1]:
        yield Finding(
            ERROR,
            f"all {row[1]} replication slots (max_replication_slots) are taken",
            "pg_replication_slots",
            f"ALTER SYSTEM SET max_replication_slots = {row[1] + 10};\n-- then restart the server; "
            "or drop a slot that nobody uses: SELECT slot_name FROM pg_replication_slots WHERE NOT active;",
        )


def _slot_in_use(connection: Connection, slot: Slot, where: str) -> Iterator[Finding]:
    deadline = time.monotonic() + _SLOT_WAIT_S
    found: Slot | None = slot
    while found is not None and found.active_pid is not None and time.monotonic() < deadline:
        time.sleep(_SLOT_WAIT_STEP_S)
        found = read_slot(connection, slot.name)
    if found is not None and found.active_pid is not None:
        row = connection.execute(
            "SELECT application_name, client_addr::text FROM pg_stat_activity WHERE pid = %s",
            [found.active_pid],
        ).fetchone()
        who = f" ({row[0]} from {row[1] or 'the local socket'})" if row else ""
        yield Finding(
            ERROR,
            f"slot {slot.name} is in use by process {found.active_pid}{who}",
            where,
            f"SELECT pg_terminate_backend({found.active_pid});\n"
            "-- only if that is not meant to read it; else choose another slot.name",
            retry=True,
        )
    if found is not None and found.wal_status == "unreserved":
        yield Finding(
            WARNING,
            f"slot {slot.name} is about to lose WAL that it needs (wal_status unreserved)",
            where,
            "ALTER SYSTEM SET max_slot_wal_keep_size = -1;\nSELECT pg_reload_conf();",
        )
