"""The table that the envelope plans for: of the catalog for a snapshot, of a Relation message in the stream.

A Relation message describes the table at its place in the stream, but without nullability, defaults and
key; the catalog has those, but as they are now. Where the two disagree because DDL ran ahead of the stream,
what was known of the relation before fills the gap (the reference, 12 no. 41), so that a table that has a
key never gets records without one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from capture.envelope.table import Column, Table
from capture.options import CaptureOptions
from capture.postgres.pgoutput import Relation, RelationColumn
from capture.postgres.relation_catalog import CatalogColumn, CatalogTable
from capture.postgres.type_catalog import TypeCatalog

DEFAULT_IDENTITY: Final = "d"


@dataclass(frozen=True, slots=True)
class KnownColumn:
    """What a Relation message lacks of a column, as of when it was last known."""

    type_oid: int
    nullable: bool
    default: str | None


@dataclass(frozen=True, slots=True)
class KnownTable:
    """What was last known of a relation. `primary` says that the key is the primary key."""

    qualified_name: str
    key: tuple[str, ...]
    primary: bool
    columns: dict[str, KnownColumn]

    def to_json(self) -> str:
        """Text for the capture's memory."""
        columns = {name: [c.type_oid, c.nullable, c.default] for name, c in self.columns.items()}
        return json.dumps([self.qualified_name, self.key, self.primary, columns], separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> KnownTable:
        """Read what `to_json` wrote."""
        qualified_name, key, primary, columns = json.loads(text)
        return cls(
            qualified_name, tuple(key), primary, {name: KnownColumn(*c) for name, c in columns.items()}
        )


def table_of_catalog(now: CatalogTable, types: TypeCatalog, options: CaptureOptions) -> Table:
    """The table as it is, for a snapshot."""
    names = [column.name for column in now.columns]
    key = _key(now, names, now.primary_key, None, options)
    return Table(
        schema=now.schema,
        name=now.name,
        columns=tuple(_column(now, column.name, column, types, options) for column in now.columns),
        key=key,
        replica_identity=now.replica_identity,
        identity=now.identity,
    )


def table_of_stream(
    relation: Relation,
    now: CatalogTable | None,
    known: KnownTable | None,
    types: TypeCatalog,
    options: CaptureOptions,
) -> Table:
    """The table as its Relation message says, completed by the catalog (None: it is gone) and by memory."""
    names = [column.name for column in relation.columns]
    key = _key(now, names, _streamed_primary_key(relation, now, known), known, options, relation)
    current = {column.name: column for column in now.columns} if now else {}
    columns = tuple(
        _column(
            relation, column.name, _completed(column, current.get(column.name), now, known), types, options
        )
        for column in relation.columns
    )
    return Table(
        schema=relation.schema,
        name=relation.name,
        columns=columns,
        key=key,
        replica_identity=relation.replica_identity,
        identity=tuple(column.name for column in relation.columns if column.identity),
    )


def knowledge_of(table: Table, now: CatalogTable | None, known: KnownTable | None) -> KnownTable:
    """What to remember of a table, next to what was known before."""
    if table.replica_identity == DEFAULT_IDENTITY and table.identity:
        primary = set(table.key) == set(table.identity)
    elif now is not None:
        primary = table.key == now.primary_key
    else:
        primary = known is not None and known.primary
    return KnownTable(
        table.qualified_name,
        table.key,
        primary,
        {c.name: KnownColumn(c.type.oid, c.nullable, c.default) for c in table.columns},
    )


def _key(
    now: CatalogTable | None,
    names: list[str],
    primary_key: tuple[str, ...],
    known: KnownTable | None,
    options: CaptureOptions,
    relation: Relation | None = None,
) -> tuple[str, ...]:
    """The key columns (the reference, 01 section 3)."""
    described = relation or now
    assert described is not None
    by_rule = options.keys.columns_of(described.schema, described.name)
    if by_rule:
        lowered = {name.lower(): name for name in names}
        chosen = tuple(lowered[name.lower()] for name in by_rule if name.lower() in lowered)
        if chosen:
            return chosen
    if primary_key:
        return primary_key
    if now is not None and now.unique_index and set(now.unique_index) <= set(names):
        return now.unique_index
    # With the default identity the message itself says that there is no primary key at this place.
    certain = relation is not None and relation.replica_identity == DEFAULT_IDENTITY
    if known is not None and known.key and set(known.key) <= set(names) and not (certain and known.primary):
        return known.key
    return ()


def _streamed_primary_key(
    relation: Relation, now: CatalogTable | None, known: KnownTable | None
) -> tuple[str, ...]:
    """The primary key at the message's place in the stream."""
    current = now.primary_key if now is not None else ()
    if relation.replica_identity != DEFAULT_IDENTITY:
        names = {column.name for column in relation.columns}
        return current if set(current) <= names else ()
    # The default identity is the primary key, so the message knows it; only the order of its columns not.
    flagged = tuple(column.name for column in relation.columns if column.identity)
    for ordered in (current, known.key if known is not None else ()):
        if set(ordered) == set(flagged):
            return ordered
    return flagged


def _completed(
    column: RelationColumn, current: CatalogColumn | None, now: CatalogTable | None, known: KnownTable | None
) -> CatalogColumn:
    """A message's column with nullability and default, from the catalog if it has the same column still."""
    before = known.columns.get(column.name) if known is not None else None
    if before is not None and before.type_oid != column.type_oid:
        before = None
    if current is not None and (current.type_oid == column.type_oid or before is None):
        default = current.default
        if now is not None and not now.defaults_known:
            default = before.default if before is not None else None
        return CatalogColumn(
            column.name, column.type_oid, column.typmod, current.nullable, "", default, current.comment
        )
    if before is not None:
        return CatalogColumn(
            column.name, column.type_oid, column.typmod, before.nullable, "", before.default, None
        )
    return CatalogColumn(column.name, column.type_oid, column.typmod, True, "", None, None)


def _column(
    described: CatalogTable | Relation,
    name: str,
    column: CatalogColumn,
    types: TypeCatalog,
    options: CaptureOptions,
) -> Column:
    return Column(
        name=name,
        type=types.get(column.type_oid),
        typmod=column.typmod,
        nullable=column.nullable,
        default=column.default,
        generated=column.generated,
        comment=column.comment,
        excluded=not options.columns.accepts(f"{described.schema}.{described.name}.{name}"),
    )
