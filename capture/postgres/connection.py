"""Connections to the captured database, and what its errors mean to an operator."""

from __future__ import annotations

from typing import Any, Final

import psycopg
from psycopg.conninfo import make_conninfo

from capture.errors import CaptureError
from capture.options import ConnectionOptions

Connection = psycopg.Connection[tuple[Any, ...]]

# What the text form of values depends on, as built-in subscribers set it (the reference, 10 section 4);
# and no timeouts that a role's defaults may bring, since snapshots and waits for a slot are long.
_SESSION: Final = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "timezone": "UTC",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
_CONNECT_TIMEOUT_S: Final = 10
# A dead peer is noticed after about a minute: an established stream may be silent for long.
_KEEPALIVES: Final = {
    "keepalives": 1,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 4,
}

# Connection failures that no repetition mends; libpq gives no SQLSTATE for these, only text.
_HOPELESS: Final = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "permission denied",
    "no pg_hba.conf entry",
    "not permitted to log in",
    "not currently accepting connections",
    "certificate",
    "does not support SSL",
    "must be superuser or replication role",
    "could not translate host name",
    "root.crt",
)
# SQLSTATEs after which the same may work in a while: connection failures, a server that stops or starts,
# resources that others hold.
_PASSING: Final = (
    "08",
    "53",
    "57P01",
    "57P02",
    "57P03",
    "57P05",
    "57014",
    "55P03",
    "40001",
    "40P01",
    "55006",
    "25006",
)


def connect(options: ConnectionOptions, application: str, *, replication: bool = False) -> Connection:
    """Open a connection in autocommit mode; raise CaptureError.

    A replication connection takes replication commands and simple queries without parameters.
    """
    parameters: dict[str, str | int | None] = {
        "host": options.host,
        "port": options.port,
        "user": options.user,
        "password": options.password,
        "dbname": options.dbname,
        "sslmode": options.sslmode,
        "sslcert": options.sslcert,
        "sslkey": options.sslkey,
        "sslpassword": options.sslpassword,
        "sslrootcert": options.sslrootcert,
        "application_name": application[:63],
        "client_encoding": "UTF8",
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "options": " ".join(f"-c {name}={value}" for name, value in _SESSION.items()),
        "replication": "database" if replication else None,
        **(_KEEPALIVES if options.keepalives else {"keepalives": 0}),
    }
    conninfo = make_conninfo("", **parameters)
    try:
        return psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)
    except psycopg.Error as error:
        raise _not_connected(options, error) from error


def failure(error: psycopg.Error, what: str) -> CaptureError:
    """The CaptureError for a server's error; `what` says what was being done, in words that read on."""
    said = first_line(error)
    state = error.sqlstate
    if state is None:  # the connection broke
        return CaptureError(f"{what}: {said}", "The connection is opened again.", retry=True)
    remedy = {
        "42501": "Grant the missing privilege to the capture's role; `tidegate doctor` names the statement.",
        "28P01": "Check database.user and database.password.",
        "28000": "Check database.user and pg_hba.conf.",
        "3D000": "Check database.dbname.",
    }.get(state, "See the server's log for details.")
    return CaptureError(f"{what}: {said} (SQLSTATE {state})", remedy, retry=state.startswith(_PASSING))


def first_line(error: psycopg.Error) -> str:
    """The server's message in one line, without details that may carry values of rows."""
    text = error.diag.message_primary or str(error)
    return " ".join(text.splitlines()[0].split()) if text else type(error).__name__


def _not_connected(options: ConnectionOptions, error: psycopg.Error) -> CaptureError:
    said = " ".join(str(error).replace("connection failed: ", "").split())
    hopeless = any(words in said for words in _HOPELESS)
    if "WAL sender" in said or "replication role" in said:
        remedy = f"Let the role replicate: ALTER ROLE {quoted(options.user or 'the_role')} REPLICATION;"
    elif "pg_hba.conf" in said:
        remedy = (
            "Allow the connection in pg_hba.conf, for the database itself (not the word replication): "
            f"host {options.dbname} {options.user or 'the_role'} <address> scram-sha-256"
        )
    elif hopeless:
        remedy = (
            "Check database.hostname, database.user, database.password, database.dbname and database.ssl*."
        )
    else:
        remedy = "Check that the server runs and that database.hostname and database.port lead to it."
    return CaptureError(f"cannot connect to {options.address}: {said}", remedy, retry=not hopeless)


def quoted(identifier: str) -> str:
    """A quoted SQL identifier."""
    return '"' + identifier.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A quoted SQL string (standard_conforming_strings is on in our sessions)."""
    return "'" + text.replace("'", "''") + "'"
