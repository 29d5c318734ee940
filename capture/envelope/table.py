"""The table as the envelope needs it: columns with their Postgres types, key and replica identity."""

from __future__ import annotations

from dataclasses import dataclass

#: pg_type.typtype of the kinds told apart here.
BASE, ENUM, DOMAIN, COMPOSITE, RANGE, MULTIRANGE, PSEUDO = "b", "e", "d", "c", "r", "m", "p"


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """One row of pg_type, with what it refers to resolved.

    An array has `element`, a domain `base` and `base_typmod`, an enum its labels in sort order.
    """

    oid: int
    name: str
    kind: str = BASE
    namespace: str = "pg_catalog"
    element: TypeInfo | None = None
    base: TypeInfo | None = None
    base_typmod: int = -1
    enum_labels: tuple[str, ...] = ()
    extension: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `typmod` is atttypmod; `default` is pg_get_expr's text, None without a default.

    `excluded` is set for a column that `column.exclude.list` or `column.include.list` removes from the row;
    it stays in the key (debezium/01 section 3).
    """

    name: str
    type: TypeInfo
    typmod: int = -1
    nullable: bool = True
    default: str | None = None
    generated: str = ""
    comment: str | None = None
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A captured table. `key` holds the resolved key columns in key order, empty if the table has none."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    replica_identity: str = "d"
    identity: tuple[str, ...] = ()

    @property
    def qualified_name(self) -> str:
        """`schema.table`, as the filters and messages spell it."""
        return f"{self.schema}.{self.name}"
