"""Tables as the catalog describes them now: columns, keys, identity, and how large they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import psycopg

from capture.postgres.connection import Connection

_INCLUDED_COLUMNS: Final = 110000  # pg_index.indnkeyatts
_GENERATED: Final = 120000  # pg_attribute.attgenerated

_RELATIONS: Final = """
SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text,
       (SELECT i.inhparent::int8 FROM pg_inherits i WHERE i.inhrelid = c.oid AND c.relispartition LIMIT 1),
       c.relreplident::text, greatest(c.reltuples, 0)::int8, pg_catalog.pg_relation_filenode(c.oid)::int8
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
"""
_COLUMNS: Final = """
SELECT a.attrelid::int8, a.attname::text, a.atttypid::int8, a.atttypmod, a.attnotnull, {generated}, {default},
       pg_catalog.col_description(a.attrelid, a.attnum)
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""
# The order in which JDBC lists unique indexes, of which Debezium takes the first that has plain columns.
_INDEXES: Final = """
SELECT i.indrelid::int8, i.indisprimary, i.indisreplident, i.indexprs IS NULL,
       ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
             WHERE k.place <= {key_columns} ORDER BY k.place)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = ANY(%s::oid[]) AND i.indisunique AND i.indisvalid
ORDER BY i.indrelid, i.indisclustered DESC, c.relname
"""
# pg_get_expr may wait for a lock that a migration holds; the stream must not wait with it.
_LOCK_TIMEOUT: Final = "2s"


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column with what a Relation message lacks. `default` is pg_get_expr's text."""

    name: str
    type_oid: int
    typmod: int
    nullable: bool
    generated: str
    default: str | None
    comment: str | None


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table or partitioned table.

    `parent` is the partitioned table that this one is a partition of; `unique_index` stands in for a missing
    primary key; `file_node` changes when the table is rewritten or truncated.
    """

    oid: int
    schema: str
    name: str
    partitioned: bool
    parent: int | None
    replica_identity: str
    rows_estimated: int
    file_node: int | None
    columns: tuple[CatalogColumn, ...] = ()
    primary_key: tuple[str, ...] = ()
    unique_index: tuple[str, ...] = ()
    identity_index: tuple[str, ...] = ()
    defaults_known: bool = True

    @property
    def qualified_name(self) -> str:
        """`schema.table`, as the filters spell it."""
        return f"{self.schema}.{self.name}"

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that the old row of an update or delete carries."""
        if self.replica_identity == "f":
            return tuple(column.name for column in self.columns)
        return {"d": self.primary_key, "i": self.identity_index}.get(self.replica_identity, ())


def list_tables(connection: Connection) -> list[CatalogTable]:
    """All permanent tables of the database, without their columns."""
    return [_table(row) for row in connection.execute(_RELATIONS)]


def read_tables(
    connection: Connection, oids: Iterable[int], *, impatient: bool = False
) -> dict[int, CatalogTable]:
    """The tables with these oids, whole; those that are gone are missing.

    With `impatient` default expressions are left out (see `defaults_known`) rather than waited for while a
    migration holds its lock: a stream must not stand still with it.
    """
    wanted = [list(oids)]
    tables = {
        row[0]: _table(row) for row in connection.execute(_RELATIONS + " AND c.oid = ANY(%s::oid[])", wanted)
    }
    column_rows, defaults_known = _column_rows(connection, list(tables), impatient)
    columns: dict[int, list[CatalogColumn]] = {oid: [] for oid in tables}
    for oid, name, type_oid, typmod, not_null, generated, default, comment in column_rows:
        expression = None if generated else default
        columns[oid].append(
            CatalogColumn(name, type_oid, typmod, not not_null, generated, expression, comment)
        )
    keys: dict[int, dict[str, tuple[str, ...]]] = {oid: {} for oid in tables}
    key_columns = "i.indnkeyatts" if connection.info.server_version >= _INCLUDED_COLUMNS else "i.indnatts"
    indexes = connection.execute(_INDEXES.format(key_columns=key_columns), [list(tables)])
    for oid, primary, identity, plain, names in indexes:
        found = keys[oid]
        if primary:
            found["primary_key"] = tuple(names)
        elif plain and "unique_index" not in found:
            found["unique_index"] = tuple(names)
        if identity:
            found["identity_index"] = tuple(names)
    return {
        oid: replace(
            table,
            columns=tuple(columns[oid]),
            defaults_known=defaults_known,
            primary_key=keys[oid].get("primary_key", ()),
            unique_index=keys[oid].get("unique_index", ()),
            identity_index=keys[oid].get("identity_index", ()),
        )
        for oid, table in tables.items()
    }


def _column_rows(
    connection: Connection, oids: Sequence[int], impatient: bool
) -> tuple[list[tuple[Any, ...]], bool]:
    generated = "a.attgenerated::text" if connection.info.server_version >= _GENERATED else "''"
    whole = _COLUMNS.format(generated=generated, default="pg_catalog.pg_get_expr(d.adbin, d.adrelid)")
    if not impatient:
        return connection.execute(whole, [oids]).fetchall(), True
    try:
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'")
            return connection.execute(whole, [oids]).fetchall(), True
    except psycopg.errors.LockNotAvailable:
        return connection.execute(
            _COLUMNS.format(generated=generated, default="NULL"), [oids]
        ).fetchall(), False


def _table(row: tuple[Any, ...]) -> CatalogTable:
    oid, schema, name, kind, parent, identity, rows, file_node = row
    return CatalogTable(oid, schema, name, kind == "p", parent, identity, rows, file_node)
