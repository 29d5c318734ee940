"""The publication: what it streams, and its life cycle by publication.autocreate.mode.

It is made before the slot (a slot decodes with the catalog as of each change, so a publication that is
younger than its slot is not found). Nothing is ever dropped but tables that no filter matches any more, and
those only in `filtered` mode.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import psycopg

from capture.errors import CaptureError
from capture.options import CaptureOptions
from capture.postgres.connection import Connection, failure, literal, quoted
from capture.postgres.relation_catalog import CatalogTable
from capture.postgres.wake import Wake

log = logging.getLogger(__name__)

FILTERED, ALL_TABLES, NO_TABLES, DISABLED = "filtered", "all_tables", "no_tables", "disabled"
_COLUMN_LISTS: Final = 150000  # and row filters, and whole schemas
_OPERATIONS: Final = {"pubinsert": "c", "pubupdate": "u", "pubdelete": "d", "pubtruncate": "t"}
_WAIT_S: Final = 0.2
_REMIND_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Streamed:
    """A relation as it is streamed: only these columns if there are any, only the rows of `row_filter`."""

    columns: tuple[str, ...] | None
    row_filter: str | None


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication as it is. `members` were added by name, `streamed` is what follows from them."""

    name: str
    all_tables: bool
    via_partition_root: bool
    operations: frozenset[str]
    members: frozenset[int]
    streamed: Mapping[int, Streamed]


def read_publication(connection: Connection, name: str, tables: Sequence[CatalogTable]) -> Publication | None:
    """The publication with this name, None if there is none.

    What it streams is worked out here: the view pg_publication_tables locks every table that it shows, so it
    would wait for any migration that is running.
    """
    row = connection.execute("SELECT to_jsonb(p) FROM pg_publication p WHERE pubname = %s", [name]).fetchone()
    if row is None:
        return None
    settings = row[0]
    via_root = settings.get("pubviaroot", False)
    members = _members(connection, name)
    schemas = _schemas(connection, name)
    everything = settings["puballtables"]
    named = {t.oid for t in tables if everything or t.schema in schemas or t.oid in members}
    parents = {table.oid: table.parent for table in tables}
    streamed = {}
    for table in tables:
        if not table.partitioned:
            ancestors = [oid for oid in _line(table.oid, parents) if oid in named]
            if ancestors:
                oid = ancestors[-1] if via_root else table.oid
                streamed[oid] = members.get(oid, Streamed(None, None))
    return Publication(
        name=name,
        all_tables=everything,
        via_partition_root=via_root,
        operations=frozenset(letter for column, letter in _OPERATIONS.items() if settings.get(column, False)),
        members=frozenset(members),
        streamed=streamed,
    )


def _members(connection: Connection, name: str) -> dict[int, Streamed]:
    """The relations that were added by name, with their column lists and row filters."""
    lists = "NULL, NULL"
    if connection.info.server_version >= _COLUMN_LISTS:
        lists = (
            "ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = r.prrelid"
            " AND a.attnum = ANY(r.prattrs::int2[])),"
            " CASE WHEN r.prqual IS NOT NULL THEN pg_get_expr(r.prqual, r.prrelid) END"
        )
    rows = connection.execute(
        f"SELECT r.prrelid::int8, {lists} FROM pg_publication_rel r"
        " JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname = %s",
        [name],
    )
    return {oid: Streamed(tuple(columns) if columns else None, where) for oid, columns, where in rows}


def _schemas(connection: Connection, name: str) -> set[str]:
    """The schemas that were added as a whole."""
    if connection.info.server_version < _COLUMN_LISTS:
        return set()
    rows = connection.execute(
        "SELECT n.nspname::text FROM pg_publication_namespace s JOIN pg_namespace n ON n.oid = s.pnnspid"
        " JOIN pg_publication p ON p.oid = s.pnpubid WHERE p.pubname = %s",
        [name],
    )
    return {schema for (schema,) in rows}


def _line(oid: int, parents: Mapping[int, int | None]) -> Iterator[int]:
    """A table and the partitioned tables above it, the root last."""
    following: int | None = oid
    while following is not None:
        yield following
        following = parents.get(following)


def captured(
    tables: Iterable[CatalogTable], publication: Publication | None, options: CaptureOptions
) -> list[CatalogTable]:
    """The tables whose changes come out of the stream, in the order of a snapshot.

    Of a partitioned table either the root or the leaves are read, whichever the publication streams. Without
    a publication (there is no stream) it is what publish.via.partition.root says.
    """
    accepted = {table.oid: table for table in tables if options.tables.accepts(table.schema, table.name)}
    if publication is not None:
        found = [table for oid, table in accepted.items() if oid in publication.streamed]
    elif options.publication.via_partition_root:
        found = [table for table in accepted.values() if not _has_ancestor(table, accepted)]
    else:
        found = [table for table in accepted.values() if not table.partitioned]
    return sorted(found, key=lambda table: options.tables.order(table.schema, table.name))


def wanted_members(tables: Iterable[CatalogTable], options: CaptureOptions) -> list[CatalogTable]:
    """The tables that a `filtered` publication names: a partitioned table stands for its partitions."""
    accepted = {table.oid: table for table in tables if options.tables.accepts(table.schema, table.name)}
    found = [table for table in accepted.values() if not _has_ancestor(table, accepted)]
    return sorted(found, key=lambda table: (table.schema, table.name))


def create_statement(members: Sequence[CatalogTable], options: CaptureOptions) -> str:
    """The statement that makes the publication in the mode asked for."""
    mode = options.publication.autocreate
    if mode == ALL_TABLES:
        what = " FOR ALL TABLES"
    elif mode == NO_TABLES:
        what = ""
    else:
        what = f" FOR TABLE {_list(members)}"
    settings = []
    if options.publication.publish is not None:
        settings.append(f"publish = {literal(options.publication.publish)}")
    if options.publication.via_partition_root:
        settings.append("publish_via_partition_root = true")
    with_settings = f" WITH ({', '.join(settings)})" if settings else ""
    return f"CREATE PUBLICATION {quoted(options.publication.name)}{what}{with_settings};"


def alter_statements(
    publication: Publication, tables: Sequence[CatalogTable], options: CaptureOptions
) -> list[str]:
    """What brings a `filtered` publication to the captured tables; one for all tables stays as it is."""
    if publication.all_tables or options.publication.autocreate != FILTERED:
        return []
    present = publication.members | publication.streamed.keys()
    added = [table for table in wanted_members(tables, options) if table.oid not in present]
    dropped = [
        table
        for table in tables
        if table.oid in publication.members and not options.tables.accepts(table.schema, table.name)
    ]
    name = quoted(publication.name)
    statements = [f"ALTER PUBLICATION {name} ADD TABLE {_list(added)};"] if added else []
    if dropped:
        statements.append(f"ALTER PUBLICATION {name} DROP TABLE {_list(dropped)};")
    return statements


def ensure(connection: Connection, tables: Sequence[CatalogTable], options: CaptureOptions) -> Publication:
    """The publication, created or altered where the mode allows it."""
    name = options.publication.name
    before = read_publication(connection, name, tables)
    if before is not None:
        statements = alter_statements(before, tables, options)
    elif options.publication.autocreate != DISABLED:
        statements = [create_statement(wanted_members(tables, options), options)]
    else:
        raise CaptureError(
            f'publication "{name}" does not exist and publication.autocreate.mode is disabled',
            f"Create it: {create_statement(wanted_members(tables, options), options)}",
        )
    for statement in statements:
        _prepare(connection, statement, options)
    after = read_publication(connection, name, tables) if statements else before
    if after is None:
        raise CaptureError(f'publication "{name}" was dropped meanwhile', "Start again.", retry=True)
    return after


def _prepare(connection: Connection, statement: str, options: CaptureOptions) -> None:
    try:
        connection.execute(statement.encode())
    except psycopg.Error as error:
        problem = failure(error, f"cannot prepare the publication ({statement})")
        lacks_privilege = error.sqlstate == "42501"
        remedy = privilege_remedy(options, statement) if lacks_privilege else problem.remedy
        raise CaptureError(problem.what, remedy, retry=problem.retry) from error
    log.info("publication prepared", extra={"statement": statement})


def privilege_remedy(options: CaptureOptions, statement: str) -> str:
    """What to do where the capture's role may not create or alter the publication."""
    hint = ""
    if options.publication.autocreate == ALL_TABLES:
        hint = " Or set publication.autocreate.mode=filtered, which needs no superuser."
    return f"Run this as a superuser or as the tables' owner: {statement}{hint}"


def wait_for_writers(
    connection: Connection, added: frozenset[int], tables: Sequence[CatalogTable], stop: Wake
) -> None:
    """Wait until whoever was writing the relations that were `added` to the publication is done.

    A transaction that wrote a table before it was added to the publication is decoded without that table, so
    a snapshot must not be taken before such a transaction is over. Writers hold their table locks to the end.
    """
    oids = set(added)
    while descendants := {table.oid for table in tables if table.parent in oids} - oids:
        oids |= descendants
    writers = _writers(connection, oids)
    waited = 0.0
    while writers:
        if stop.wait(_WAIT_S):
            return
        waited += _WAIT_S
        if waited >= _REMIND_S:
            waited = 0.0
            log.warning(
                "waiting for transactions that were writing new tables before they were published",
                extra={"transactions": len(writers)},
            )
        writers &= _writers(connection, oids)


def _writers(connection: Connection, oids: Iterable[int]) -> set[str]:
    rows = connection.execute(
        "SELECT DISTINCT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND mode NOT IN ('AccessShareLock', 'RowShareLock') AND relation = ANY(%s::oid[])",
        [list(oids)],
    )
    return {row[0] for row in rows}


def _has_ancestor(table: CatalogTable, among: Mapping[int, CatalogTable]) -> bool:
    return table.parent is not None and table.parent in among


def _list(tables: Sequence[CatalogTable]) -> str:
    return ", ".join(f"{quoted(table.schema)}.{quoted(table.name)}" for table in tables)
