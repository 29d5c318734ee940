"""Fold a topic back into its table, strictly, and compare the two in SQL.

Strictly: a create of a key that lives, or an update or delete of one that does not, is a change lost or
doubled on the way, and fails at once with the topic and offset.
"""

from __future__ import annotations

import base64
import io
import json
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import fastavro
import psycopg
from psycopg import sql

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - compared with columns without a time zone
PLACEHOLDER = "__debezium_unavailable_value"

Row = dict[str, Any]
Decode = Callable[[bytes], Any]


class Record(NamedTuple):
    """What any client can tell of a record."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class AvroDecoder:
    """Confluent's wire format by way of the registry: magic 0, schema id, Avro binary."""

    def __init__(self, registry_url: str) -> None:
        self.registry_url = registry_url
        self._schemas: dict[int, Any] = {}

    def __call__(self, data: bytes) -> Any:
        assert data[0] == 0, f"magic byte is {data[0]}"
        schema_id = int.from_bytes(data[1:5], "big")
        if schema_id not in self._schemas:
            with urllib.request.urlopen(f"{self.registry_url}/schemas/ids/{schema_id}", timeout=10) as answer:
                text = json.load(answer)["schema"]
            self._schemas[schema_id] = fastavro.parse_schema(json.loads(text))
        stream = io.BytesIO(data[5:])
        value = fastavro.schemaless_reader(stream, self._schemas[schema_id], None)
        assert stream.read() == b"", "bytes left over behind the Avro value"
        return value


def decode_json(data: bytes) -> Any:
    """JSON with or without Connect's schema wrapper."""
    value = json.loads(data)
    return value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value


class Fold:
    """The rows that a topic's records leave, by key; `add` in offset order."""

    def __init__(self, decode: Decode) -> None:
        self.rows: dict[str, Row] = {}
        self.unkeyed: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()
        self._decode = decode
        self._next_offset: dict[tuple[str, int], int] = {}
        self._tombstone_due: tuple[str | None] | None = None

    def add(self, record: Record) -> None:
        """Apply one record; AssertionError where it contradicts those before."""
        where = f"{record.topic}[{record.partition}]@{record.offset}"
        expected = self._next_offset.get((record.topic, record.partition), 0)
        assert record.offset == expected, f"{where}: expected offset {expected}"
        self._next_offset[record.topic, record.partition] = expected + 1
        key = None if record.key is None else _text(self._decode(record.key))
        if self._tombstone_due is not None:
            assert (record.value, (key,)) == (None, self._tombstone_due), (
                f"{where}: no tombstone for the delete"
            )
            self._tombstone_due = None
            self.operations["tombstone"] += 1
            return
        assert record.value is not None, f"{where}: a tombstone without a delete"
        change = self._decode(record.value)
        self.operations[change["op"]] += 1
        if key is None:
            self._apply_unkeyed(where, change)
        else:
            self._apply(where, key, change)

    def result(self) -> list[Row]:
        """The rows that are left."""
        assert self._tombstone_due is None, "the last delete has no tombstone"
        unkeyed = [json.loads(text, object_hook=_revive) for text in self.unkeyed.elements()]
        return [*self.rows.values(), *unkeyed]

    def _apply(self, where: str, key: str, change: Mapping[str, Any]) -> None:
        live = self.rows.get(key)
        match change["op"]:
            case "r" | "c":
                assert live is None, f"{where}: {change['op']} of a key that is there already: doubled"
                self.rows[key] = dict(change["after"])
            case "u":
                assert live is not None, f"{where}: update of a key that is not there: lost"
                before = change.get("before")
                if before is not None and all(before.get(name) is not None for name in key_names(key)):
                    self._check_before(where, live, before)
                self.rows[key] = {
                    name: live.get(name) if value == PLACEHOLDER else value
                    for name, value in change["after"].items()
                }
            case "d":
                assert live is not None, f"{where}: delete of a key that is not there: lost"
                del self.rows[key]
                self._tombstone_due = (key,)
            case other:
                raise AssertionError(f"{where}: unknown op {other!r}")

    def _check_before(self, where: str, live: Row, before: Row) -> None:
        """REPLICA IDENTITY FULL: the row before must be the row that we hold."""
        for name, value in before.items():
            if name in live and value != PLACEHOLDER:
                assert live[name] == value, f"{where}: before.{name} is not what the last change left"

    def _apply_unkeyed(self, where: str, change: Mapping[str, Any]) -> None:
        if change["op"] in ("u", "d"):
            before = _text({name: value for name, value in change["before"].items() if value is not None})
            assert self.unkeyed[before] > 0, f"{where}: {change['op']} of a row that is not there: lost"
            self.unkeyed[before] -= 1
            if change["op"] == "d":  # Debezium: a tombstone follows here too, with a null key
                self._tombstone_due = (None,)
        if change["op"] in ("r", "c", "u"):
            after = {name: value for name, value in change["after"].items() if value is not None}
            self.unkeyed[_text(after)] += 1


def fold(records: Iterable[Record], decode: Decode) -> Fold:
    """Fold one topic's records, in offset order."""
    folded = Fold(decode)
    for record in records:
        folded.add(record)
    return folded


def key_names(key: str) -> list[str]:
    """The column names in a key's canonical text."""
    return list(json.loads(key))


def differences(connection: psycopg.Connection[Any], table: str, rows: Sequence[Row]) -> list[str]:
    """Compare folded rows with a table, by the server itself; an empty list means equal."""
    columns = connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod), atttypmod FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [table],
    ).fetchall()
    names = {name for name, _, _ in columns}
    strangers = {name for row in rows for name in row} - names
    if strangers:
        return [f"{table}: the topic has columns that the table has not: {sorted(strangers)}"]
    copy = sql.Identifier(f"folded_{table}")
    connection.execute(sql.SQL("DROP TABLE IF EXISTS pg_temp.{}").format(copy))
    connection.execute(sql.SQL("CREATE TEMP TABLE {} (LIKE {})").format(copy, sql.Identifier(table)))
    with connection.cursor() as cursor:
        places = sql.SQL(", ").join(sql.SQL("%s::" + kind) for _, kind, _ in columns)
        statement = sql.SQL("INSERT INTO pg_temp.{} VALUES ({})").format(copy, places)
        values = [[_sql_value(kind, mod, row.get(name)) for name, kind, mod in columns] for row in rows]
        cursor.executemany(statement, values)
    found = []
    for what, one, other in (
        ("only in the table", sql.Identifier(table), copy),
        ("only in the topic", copy, sql.Identifier(table)),
    ):
        query = sql.SQL("SELECT * FROM {} EXCEPT ALL SELECT * FROM {}").format(one, other)
        different = connection.execute(query).fetchall()
        if different:
            found.append(f"{table}: {len(different)} rows {what}, e.g. {str(different[0])[:500]}")
    return found


def _sql_value(kind: str, typmod: int, value: Any) -> Any:
    """A Debezium value, default modes, in a form that the server casts to the column's type."""
    if value is None:
        return None
    if kind == "date":
        return _EPOCH + timedelta(days=value)
    if kind.startswith("timestamp") and kind.endswith("without time zone"):
        micros = value * 1000 if "(3)" in kind else value
        return _EPOCH + timedelta(microseconds=micros)
    if kind == "time without time zone":
        seconds, micros = divmod(value, 1_000_000)
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
    if kind.startswith("numeric"):
        return _decimal(value, ((typmod - 4) & 0x7FF) if typmod >= 0 else None)
    if kind == "bytea" and isinstance(value, str):
        return base64.b64decode(value)
    return value


def _decimal(value: Any, scale: int | None) -> Decimal:
    """Connect's Decimal (unscaled big-endian bytes), or Debezium's VariableScaleDecimal."""
    if isinstance(value, Decimal | int):
        return Decimal(value)
    if isinstance(value, dict):
        scale, value = value["scale"], value["value"]
    data = base64.b64decode(value) if isinstance(value, str) else value
    assert scale is not None
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale)


def _text(value: Any) -> str:
    """A canonical text, so that rows and keys can be compared and counted."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=_dismantle)


def _dismantle(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    raise TypeError(type(value).__name__)


def _revive(value: dict[str, Any]) -> Any:
    if value.keys() == {"$bytes"}:
        return bytes.fromhex(value["$bytes"])
    if value.keys() == {"$decimal"}:
        return Decimal(value["$decimal"])
    return value
