"""What publication and tables lack before a database can be captured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from capture.envelope import topic_name
from capture.options import CaptureOptions
from capture.postgres.connection import Connection, quoted
from capture.postgres.finding import ERROR, WARNING, Finding
from capture.postgres.publication import (
    ALL_TABLES,
    DISABLED,
    FILTERED,
    Publication,
    alter_statements,
    create_statement,
    wanted_members,
)
from capture.postgres.relation_catalog import CatalogTable


def publication_findings(
    connection: Connection,
    options: CaptureOptions,
    tables: Sequence[CatalogTable],
    publication: Publication | None,
) -> Iterator[Finding]:
    """Whether the publication is there, or can be made, and streams what is asked for."""
    name = options.publication.name
    where = f"pg_publication, publication {name}"
    if publication is None:
        members = wanted_members(tables, options)
        statement = create_statement(members, options)
        if options.publication.autocreate == DISABLED:
            yield Finding(ERROR, f"publication {name} does not exist", where, statement)
        elif members or options.publication.autocreate != FILTERED:
            lacking = _lacks_for_publication(connection, options, members)
            if lacking:
                yield Finding(ERROR, f"cannot create publication {name}: {lacking}", where, statement)
        return
    statements = alter_statements(publication, tables, options)
    if statements:
        lacking = _lacks_for_publication(connection, options, wanted_members(tables, options))
        if lacking:
            yield Finding(ERROR, f"cannot alter publication {name}: {lacking}", where, "\n".join(statements))
    elif options.publication.autocreate != FILTERED:
        uncovered = [
            table
            for table in wanted_members(tables, options)
            if table.oid not in publication.streamed and not table.partitioned
        ]
        if uncovered and (options.tables.tables.include or options.tables.schemas.include):
            names = ", ".join(f"{quoted(table.schema)}.{quoted(table.name)}" for table in uncovered)
            yield Finding(
                WARNING,
                f"publication {name} does not cover {len(uncovered)} of the tables asked for: {names}",
                where,
                f"ALTER PUBLICATION {quoted(name)} ADD TABLE {names};",
            )
    missing = {"c", "u", "d"} - publication.operations - options.envelope.skipped_operations
    if missing:
        operations = "insert, update, delete, truncate"
        yield Finding(
            WARNING,
            f"publication {name} leaves out operations ({', '.join(sorted(missing))})",
            where,
            f"ALTER PUBLICATION {quoted(name)} SET (publish = '{operations}');",
        )
    if options.publication.via_partition_root and not publication.via_partition_root:
        yield Finding(
            WARNING,
            f"publication {name} streams partitions, not roots, whatever publish.via.partition.root says",
            where,
            f"ALTER PUBLICATION {quoted(name)} SET (publish_via_partition_root = true);",
        )


def _lacks_for_publication(
    connection: Connection, options: CaptureOptions, members: Sequence[CatalogTable]
) -> str | None:
    """What the role lacks to create the publication or to add tables to it."""
    row = connection.execute(
        "SELECT rolsuper, rolname::text, has_database_privilege(current_database(), 'CREATE'),"
        " pg_is_in_recovery() FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    assert row is not None
    superuser, role, may_create, standby = row
    if standby:
        return "a standby is read-only; create it on the primary"
    if superuser:
        return None
    if options.publication.autocreate == ALL_TABLES:
        return f"FOR ALL TABLES needs a superuser, which {role} is not (mode filtered needs none)"
    if not may_create:
        return f"role {role} lacks CREATE on the database"
    owners = connection.execute(
        "SELECT c.oid::int8 FROM pg_class c WHERE c.oid = ANY(%s::oid[])"
        " AND NOT pg_has_role(current_user, c.relowner, 'USAGE')",
        [[table.oid for table in members]],
    )
    foreign = {oid for (oid,) in owners}
    if foreign:
        names = ", ".join(table.qualified_name for table in members if table.oid in foreign)
        return f"role {role} does not own {names}"
    return None


def match_findings(
    options: CaptureOptions, tables: Sequence[CatalogTable], chosen: Sequence[CatalogTable]
) -> Iterator[Finding]:
    """Whether there is anything to capture."""
    if chosen:
        return
    where = f"database {options.connection.dbname}"
    partitioned = [t for t in tables if t.partitioned and options.tables.accepts(t.schema, t.name)]
    if partitioned:
        yield Finding(
            ERROR,
            f"of {partitioned[0].qualified_name} only the root matches the filters, but partitions stream",
            where,
            "-- set publish.via.partition.root=true, or let table.include.list match the partitions",
        )
        return
    filtered = options.publication.autocreate == FILTERED
    there = ", ".join(table.qualified_name for table in tables[:10]) or "none"
    yield Finding(
        ERROR if filtered or options.snapshot.mode == "initial_only" else WARNING,
        f"no table matches {_filters(options)}; the database has {there}{' …' if len(tables) > 10 else ''}",
        where,
        "-- correct table.include.list (regular expressions that match schema.table as a whole)",
    )


def _filters(options: CaptureOptions) -> str:
    """The lists that were given, as they were written."""
    kinds = {"schema": options.tables.schemas, "table": options.tables.tables}
    given = [
        f"{kind}.{side}.list={','.join(pattern.pattern for pattern in names.patterns)}"
        for kind, filters in kinds.items()
        for side, names in (("include", filters.include), ("exclude", filters.exclude))
        if names
    ]
    return " and ".join(given) or "the filters"


def privilege_findings(
    connection: Connection, options: CaptureOptions, chosen: Sequence[CatalogTable]
) -> Iterator[Finding]:
    """Whether the rows of the tables may be read."""
    if options.snapshot.mode == "no_data":
        return
    read = [
        t
        for t in chosen
        if not options.snapshot.collections or options.snapshot.collections.matches(t.qualified_name)
    ]
    role = _role_name(connection)
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT c.oid::int8, has_schema_privilege(c.relnamespace, 'USAGE'),"
        " has_any_column_privilege(c.oid, 'SELECT') FROM pg_class c WHERE c.oid = ANY(%s::oid[])",
        [[table.oid for table in read]],
    ).fetchall()
    by_oid = {table.oid: table for table in read}
    for schema in sorted({by_oid[oid].schema for oid, usage, _ in rows if not usage}):
        yield Finding(
            ERROR,
            f"role {role} may not use schema {schema}",
            f"schema {schema}",
            f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {quoted(role)};",
        )
    unreadable = [by_oid[oid] for oid, _, select in rows if not select]
    if unreadable:
        names = ", ".join(f"{quoted(table.schema)}.{quoted(table.name)}" for table in unreadable)
        yield Finding(
            ERROR,
            f"role {role} may not read {len(unreadable)} of the tables, so their rows cannot be snapshotted",
            ", ".join(table.qualified_name for table in unreadable),
            f"GRANT SELECT ON {names} TO {quoted(role)};",
        )


def _role_name(connection: Connection) -> str:
    row = connection.execute("SELECT current_user::text").fetchone()
    assert row is not None
    name: str = row[0]
    return name


def identity_findings(
    options: CaptureOptions, details: Sequence[CatalogTable], publication: Publication | None
) -> Iterator[Finding]:
    """Tables whose updates and deletes will fail, or come without a proper key."""
    operations = publication.operations if publication is not None else frozenset("cud")
    if publication is None and options.publication.publish is not None:
        words = {"insert": "c", "update": "u", "delete": "d"}
        operations = frozenset(
            letter for word, letter in words.items() if word in options.publication.publish
        )
    for table in details:
        identity = table.replica_identity
        name = f"{quoted(table.schema)}.{quoted(table.name)}"
        if identity in "dn" and not table.identity and operations & {"u", "d"}:
            yield Finding(
                WARNING,
                f"{table.qualified_name} has no replica identity: once published, PostgreSQL refuses UPDATE "
                "and DELETE on it",
                f"table {table.qualified_name}",
                f"ALTER TABLE {name} REPLICA IDENTITY FULL;\n-- or add a primary key",
            )
        elif identity == "i" and table.primary_key and not set(table.primary_key) <= set(table.identity):
            yield Finding(
                WARNING,
                f"{table.qualified_name}: its replica identity index lacks primary key columns, so keys of "
                "deletes are filled with zero values",
                f"table {table.qualified_name}",
                f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT;",
            )


def collision_findings(options: CaptureOptions, chosen: Sequence[CatalogTable]) -> Iterator[Finding]:
    """Tables that end up in one topic."""
    topics = defaultdict(list)
    for table in chosen:
        topics[topic_name(options.envelope, table.schema, table.name)].append(table.qualified_name)
    for topic, names in topics.items():
        if len(names) > 1:
            yield Finding(
                WARNING,
                f"tables {', '.join(names)} share the topic {topic}",
                f"topic {topic}",
                "-- rename one of them, or exclude it by table.exclude.list",
            )
