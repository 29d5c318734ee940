"""Types by oid, with all that the envelope wants to know: elements, base types, labels, extensions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from capture.envelope.table import TypeInfo
from capture.postgres.connection import Connection

# A true array type is one that array_in reads: typelem alone is also set for point, name and others.
_TYPES: Final = """
SELECT t.oid::int8, t.typname::text, t.typtype::text, n.nspname::text,
       CASE WHEN t.typinput = 'pg_catalog.array_in'::regproc THEN t.typelem::int8 ELSE 0 END,
       t.typbasetype::int8, t.typtypmod,
       CASE WHEN t.typtype = 'e' THEN
           ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder)
       END,
       (SELECT x.extname::text FROM pg_depend d JOIN pg_extension x ON x.oid = d.refobjid
        WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e'
          AND d.refclassid = 'pg_extension'::regclass LIMIT 1)
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE t.oid = ANY(%s::oid[])
"""
_FIRST_USER_OID: Final = 16384


@dataclass(frozen=True, slots=True)
class _Row:
    oid: int
    name: str
    kind: str
    namespace: str
    element: int
    base: int
    base_typmod: int
    labels: list[str] | None
    extension: str | None


class TypeCatalog:
    """The types seen so far. Those of the server itself are read once, all others whenever they are wanted.

    A type that is gone from the catalog keeps what was known of it, and is otherwise an unknown base type:
    a stream may still bring values of it.
    """

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}

    def read(self, connection: Connection, oids: Iterable[int]) -> None:
        """Bring the types with these oids, and what they refer to, up to date."""
        wanted = set(oids)
        done: set[int] = set()
        while wanted:
            missing = [oid for oid in wanted if oid >= _FIRST_USER_OID or oid not in self._rows]
            for row in connection.execute(_TYPES, [missing]) if missing else ():
                self._rows[row[0]] = _Row(*row)
            done |= wanted
            rows = [self._rows[oid] for oid in wanted if oid in self._rows]
            wanted = {oid for row in rows for oid in (row.element, row.base) if oid} - done

    def get(self, oid: int) -> TypeInfo:
        """The type with this oid, as far as it is known."""
        row = self._rows.get(oid)
        if row is None:
            return TypeInfo(oid, f"unknown_{oid}", namespace="")
        return TypeInfo(
            oid,
            row.name,
            row.kind,
            row.namespace,
            element=self.get(row.element) if row.element else None,
            base=self.get(row.base) if row.base else None,
            base_typmod=row.base_typmod,
            enum_labels=tuple(row.labels or ()),
            extension=row.extension,
        )
