"""The doctor: each finding on a real server, and the statement that it gives mends it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture.options import CaptureOptions, from_url
from capture.postgres.doctor import ERROR, INFO, WARNING, Finding, examine
from tests.support.capture_thread import CaptureThread, options_for
from tests.support.postgres import PostgresServer

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def sql(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def found(options: CaptureOptions, severity: str = ERROR) -> list[Finding]:
    return [finding for finding in examine(options) if finding.severity == severity]


def only(options: CaptureOptions, words: str, severity: str = ERROR) -> Finding:
    """The one finding of this severity; it says these words."""
    (finding,) = found(options, severity)
    assert words in finding.what, finding
    return finding


def mend(connection: Connection, finding: Finding) -> None:
    """Run what the finding says; comments are for people."""
    statements = [line for line in finding.statement.splitlines() if not line.startswith("--")]
    assert statements, finding
    connection.execute("\n".join(statements).encode())


def as_user(database: str, user: str, settings: Mapping[str, str] | None = None) -> CaptureOptions:
    return options_for(database, "c", {**from_url(database), "database.user": user, **(settings or {})})


@pytest.fixture
def role(postgres: PostgresServer, sql: Connection) -> Iterator[str]:
    """A role that may log in and nothing else."""
    sql.execute("CREATE ROLE plain LOGIN")
    yield "plain"
    sql.execute("DROP OWNED BY plain CASCADE; DROP ROLE plain")


def test_a_database_that_lacks_nothing(database: str, sql: Connection) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    assert found(options_for(database, "c")) == found(options_for(database, "c"), WARNING) == []
    only(options_for(database, "c"), "max_slot_wal_keep_size", INFO)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"database.port": "1"}, "refused"),
        ({"database.dbname": "no_such_database"}, "does not exist"),
        ({"database.user": "nobody_there"}, "does not exist"),
        ({"database.hostname": "no.such.host.invalid"}, "no.such.host.invalid"),
        ({"database.sslmode": "require"}, "SSL"),
    ],
)
def test_no_connection(change: dict[str, str], words: str, database: str) -> None:
    finding = only(options_for(database, "c", change), words)
    assert "database." in finding.statement or "SSL" in finding.what


def test_wal_level_and_walsenders(tmp_path: Path) -> None:
    with PostgresServer({"wal_level": "replica", "max_wal_senders": "0"}) as server:
        dsn = server.create_database()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
            level, senders = found(options_for(dsn, "c"))
            assert "wal_level is replica" in level.what
            assert "max_wal_senders" in senders.what
            for finding in (level, senders):
                mend(connection, finding)
        del server.settings["wal_level"], server.settings["max_wal_senders"]
        server.restart()
        assert found(options_for(dsn, "c")) == []


def test_no_free_slot() -> None:
    with PostgresServer({"max_replication_slots": "1"}) as server:
        dsn = server.create_database()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
            connection.execute("SELECT pg_create_logical_replication_slot('other', 'pgoutput')")
            mend(connection, only(options_for(dsn, "c"), "all 1 replication slots"))
        del server.settings["max_replication_slots"]
        server.restart()
        assert found(options_for(dsn, "c")) == []


def test_a_role_without_anything(database: str, sql: Connection, role: str, tmp_path: Path) -> None:
    """Statement by statement until the capture starts."""
    sql.execute('CREATE SCHEMA "My Schema"; CREATE TABLE "My Schema"."T" (id int PRIMARY KEY)')
    sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    options = as_user(database, role)
    seen = []
    while errors := found(options):
        seen.append(errors[0].what)
        if "does not own" in errors[0].what or "lacks CREATE" in errors[0].what:
            sql.execute(errors[0].statement.encode())  # by a superuser
            continue
        mend(sql, errors[0])
        assert len(seen) < 10, seen
    assert any("may not replicate" in what for what in seen)
    assert any("may not use schema" in what for what in seen)
    assert any("may not read" in what for what in seen)
    CaptureThread(options, tmp_path / "log").until_streaming().stop()


def test_all_tables_needs_a_superuser(database: str, sql: Connection, role: str) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    sql.execute("ALTER ROLE plain REPLICATION; GRANT SELECT ON t TO plain")
    options = as_user(database, role, {"publication.autocreate.mode": "all_tables"})
    mend(sql, only(options, "needs a superuser"))
    assert found(options) == []


def test_a_disabled_publication_must_be_there(database: str, sql: Connection) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    options = options_for(
        database, "c", {"publication.autocreate.mode": "disabled", "publication.name": "My Pub"}
    )
    mend(sql, only(options, "does not exist"))
    assert found(options) == []


def test_a_publication_that_does_not_cover(database: str, sql: Connection) -> None:
    sql.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    sql.execute("CREATE PUBLICATION dbz_publication FOR TABLE a WITH (publish = 'insert')")
    settings = {"publication.autocreate.mode": "disabled", "table.include.list": "public.a,public.b"}
    options = options_for(database, "c", settings)
    uncovered, operations = found(options, WARNING)
    assert "does not cover 1" in uncovered.what
    assert "leaves out operations (d, u)" in operations.what
    mend(sql, uncovered)
    mend(sql, operations)
    assert found(options, WARNING) == []


def test_slots_that_are_not_ours(postgres: PostgresServer, database: str, sql: Connection) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION dbz_publication FOR TABLE t")
    options = options_for(database, "c")
    sql.execute("SELECT pg_create_physical_replication_slot(%s)", [options.slot.name])
    mend(sql, only(options, "is physical"))
    other = postgres.create_database()
    try:
        with psycopg.connect(other, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [options.slot.name]
            )
            assert "another slot.name" in only(options, "belongs to database").statement
    finally:
        postgres.drop_database(other)


def test_a_slot_in_use(database: str, sql: Connection, tmp_path: Path) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    options = options_for(database, "c")
    with CaptureThread(options, tmp_path / "log") as running:
        running.until_streaming()
        finding = only(options, "is in use by process")
        assert "tidegate c streaming" in finding.what
        assert "pg_terminate_backend" in finding.statement
        running.stop()


def test_a_slot_older_than_its_publication(database: str, sql: Connection) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    options = options_for(database, "c")
    sql.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [options.slot.name])
    mend(sql, only(options, "older than the publication"))
    assert found(options) == []


def test_a_lost_slot(tmp_path: Path) -> None:
    settings = {"max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "min_wal_size": "32MB"}
    with PostgresServer(settings) as server:
        dsn = server.create_database()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
            options = options_for(dsn, "c")
            CaptureThread(options, tmp_path / "log").until_streaming().stop()
            for _ in range(3):
                connection.execute(
                    "INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 30000) g"
                )
                connection.execute("TRUNCATE t; SELECT pg_switch_wal(); CHECKPOINT")
            finding = only(options, "is lost")
            again = options_for(dsn, "c", {"snapshot.mode": "when_needed"})
            assert found(again) == []
            CaptureThread(again, tmp_path / "log").until_streaming().stop()
            assert found(options) == []
            assert "when_needed" in finding.statement


def test_tables_without_a_proper_identity(database: str, sql: Connection) -> None:
    sql.execute("CREATE TABLE bare (id int); CREATE TABLE full_row (id int)")
    sql.execute("ALTER TABLE full_row REPLICA IDENTITY FULL")
    sql.execute("CREATE TABLE indexed (id int PRIMARY KEY, u int NOT NULL UNIQUE)")
    sql.execute("ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_u_key")
    options = options_for(database, "c")
    bare, indexed = found(options, WARNING)
    assert "public.bare has no replica identity" in bare.what
    assert "public.indexed: its replica identity index lacks" in indexed.what
    mend(sql, bare)
    mend(sql, indexed)
    assert found(options, WARNING) == []


def test_topics_that_collide(database: str, sql: Connection) -> None:
    sql.execute('CREATE TABLE "a b" (id int PRIMARY KEY); CREATE TABLE "a$b" (id int PRIMARY KEY)')
    assert "shop.public.a_b" in only(options_for(database, "c"), "share the topic", WARNING).what


def test_nothing_matches(database: str, sql: Connection) -> None:
    sql.execute("CREATE TABLE orders (id int PRIMARY KEY)")
    finding = only(options_for(database, "c", {"table.include.list": "public.order"}), "no table matches")
    assert "table.include.list=public.order" in finding.what
    assert "public.orders" in finding.what
    sql.execute("CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    sql.execute("CREATE TABLE p_1 PARTITION OF p DEFAULT")
    root = {"table.include.list": "public.p"}
    assert "publish.via.partition.root" in only(options_for(database, "c", root), "only the root").statement
    assert found(options_for(database, "c", {**root, "publish.via.partition.root": "true"})) == []
