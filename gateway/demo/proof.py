"""Proves topics against their tables: what a stock client reads, folded by key, is compared in SQL.

A table is proved when folding its topic gives exactly its rows, and when the topic holds exactly as many
inserts, updates and deletes as were committed.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from gateway.demo.feed import Change, Reader

Connection = psycopg.Connection[tuple[Any, ...]]
Ops = Mapping[tuple[str, str], int]

_SETTLE_S: Final = 1.0
_SHOWN: Final = 3


@dataclass
class Folded:
    """Topics folded by key as far as they were read: the newest row of each key, and the changes by kind."""

    rows: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    operations: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, change: Change) -> None:
        """Take in the next change of a topic; a delete or a tombstone removes the key."""
        rows = self.rows.setdefault(change.table, {})
        key = json.dumps(change.key, sort_keys=True, default=str)
        if change.envelope is None:
            rows.pop(key, None)
            return
        self.operations[change.table, change.envelope["op"]] += 1
        if change.envelope["op"] == "d":
            rows.pop(key, None)
        else:
            rows[key] = change.envelope["after"]


@dataclass(frozen=True, slots=True)
class TableProof:
    """What was found for one table; `differences` says what does not agree, and is empty when all does."""

    table: str
    rows: int
    snapshot: int
    streamed: Mapping[str, int]
    differences: tuple[str, ...]


def prove(
    reader: Reader,
    folded: Folded,
    connection: Connection,
    tables: Sequence[str],
    expected: Ops,
    *,
    timeout_s: float = 60.0,
) -> list[TableProof]:
    """Read until topics and tables agree or the time is over; nobody may write to the tables meanwhile.

    `expected` counts the changes committed since the tables were first read, as (table, op) with Debezium's
    r, c, u and d.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        _read_all(reader, folded, deadline)
        proofs = [_proof(folded, connection, table, expected) for table in tables]
        late = time.monotonic() > deadline
        if late or not any(proof.differences for proof in proofs):
            # A change too many would come after the last expected one.
            settled = time.monotonic() + _SETTLE_S
            while not late and time.monotonic() < settled:
                for change in reader.poll():
                    folded.add(change)
            return proofs if late else [_proof(folded, connection, table, expected) for table in tables]


def _read_all(reader: Reader, folded: Folded, deadline: float) -> None:
    while time.monotonic() < deadline:
        for change in reader.poll():
            folded.add(change)
        if reader.behind() == 0:
            return


def _proof(folded: Folded, connection: Connection, table: str, expected: Ops) -> TableProof:
    differences = []
    counted = {op: folded.operations[table, op] for op in "rcud"}
    for op, count in counted.items():
        wanted = expected.get((table, op), 0)
        if count != wanted:
            differences.append(f"op {op}: {wanted} committed, {count} in the topic")
    rows = list(folded.rows.get(table, {}).values())
    differences += _compared(connection, table, rows)
    snapshot = counted.pop("r")
    return TableProof(table, len(rows), snapshot, counted, tuple(differences))


def _compared(connection: Connection, table: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Differences between a table and rows decoded from its topic, both ways, found by the server itself."""
    columns = connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
        [table],
    ).fetchall()
    documents = [
        {name: _sql_value(row.get(name), kind) for name, kind in columns if name in row} for row in rows
    ]
    name = sql.Identifier(table)
    with connection.transaction(force_rollback=True):
        populated = sql.SQL("SELECT * FROM jsonb_populate_recordset(NULL::{}, %s)").format(name)
        statement = sql.SQL("CREATE TEMP TABLE folded ON COMMIT DROP AS {}").format(populated)
        connection.execute(statement, [Jsonb(documents)])
        differences = []
        for label, one, other in (
            ("only in the table", name, sql.Identifier("folded")),
            ("only in the topic", sql.Identifier("folded"), name),
        ):
            query = sql.SQL("SELECT t::text FROM (SELECT * FROM {} EXCEPT ALL SELECT * FROM {}) AS t")
            found = [row[0] for row in connection.execute(query.format(one, other))]
            differences += [f"{label}: {text}" for text in found[:_SHOWN]]
            if len(found) > _SHOWN:
                differences.append(f"{label}: {len(found) - _SHOWN} more rows")
    return differences


def _sql_value(value: Any, kind: str) -> Any:
    """A decoded Avro value as jsonb_populate_recordset reads it; other types are text that SQL casts."""
    if isinstance(value, Decimal):
        return str(value)
    if kind in ("json", "jsonb") and isinstance(value, str):
        return json.loads(value)
    return value
