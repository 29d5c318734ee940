"""A database that lacks something: `serve` ends before anything starts and says what, where and how to mend
it; `doctor` says the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support import shop
from tests.support.postgres import PostgresServer
from tests.support.process import Process, tidegate
from tests.support.service import ROOT, Service


def refused(dsn: str, folder: Path, *arguments: str) -> str:
    """The words of a `tidegate serve` that must end by itself, with 1 or 2, quickly."""
    service = Service(dsn, folder / "data")
    command = tidegate("serve", "--postgres", dsn, "--data", str(service.data), "--kafka", service.kafka)
    command += ["--registry", service.registry, "--admin", service.admin, *arguments]
    with Process(command, errors=folder / "stderr", environment={"PYTHONPATH": str(ROOT)}) as process:
        code = process.wait(30)
        text = "\n".join(process.lines) + (folder / "stderr").read_text()
    assert code in (1, 2), text
    assert "Traceback" not in text
    assert not list(folder.glob("data/topics/*")), "nothing may have started"
    return text


def examined(dsn: str, folder: Path) -> str:
    """The words of `tidegate doctor`, which must find something."""
    command = tidegate("doctor", "--postgres", dsn, "--data", str(folder / "data"))
    with Process(command, errors=folder / "doctor", environment={"PYTHONPATH": str(ROOT)}) as process:
        code = process.wait(30)
        text = "\n".join(process.lines) + (folder / "doctor").read_text()
    assert code == 1, text
    assert "Traceback" not in text
    return text


def test_nobody_listens(tmp_path: Path) -> None:
    text = refused("postgresql://postgres@127.0.0.1:1/shop", tmp_path)
    assert "127.0.0.1" in text
    assert "refused" in text.lower()


def test_no_such_database(postgres: PostgresServer, tmp_path: Path) -> None:
    text = refused(postgres.dsn("no_such_database"), tmp_path)
    assert "no_such_database" in text
    assert "does not exist" in text


def test_wal_level_is_too_low(tmp_path: Path) -> None:
    with PostgresServer({"wal_level": "replica"}) as server:
        dsn = server.create_database()
        shop.create(dsn)
        for text in (refused(dsn, tmp_path), examined(dsn, tmp_path)):
            assert "wal_level" in text
            assert "ALTER SYSTEM SET wal_level = logical" in text
            assert "restart" in text.lower()


def test_a_role_without_the_right_to_replicate(
    postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    shop.create(database)
    with role(postgres, "LOGIN") as name:
        dsn = postgres.dsn(database.rsplit("/", 1)[1], user=name)
        for text in (refused(dsn, tmp_path), examined(dsn, tmp_path)):
            assert f"ALTER ROLE {name} REPLICATION" in text.replace('"', "")


def test_a_role_that_may_not_read_a_table(postgres: PostgresServer, database: str, tmp_path: Path) -> None:
    shop.create(database)
    with role(postgres, "LOGIN REPLICATION") as name:
        dsn = postgres.dsn(database.rsplit("/", 1)[1], user=name)
        text = refused(dsn, tmp_path).replace('"', "")
        assert "GRANT" in text
        assert name in text


def test_no_slot_is_free(tmp_path: Path) -> None:
    with PostgresServer({"max_replication_slots": "1"}) as server:
        dsn = server.create_database()
        shop.create(dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_create_logical_replication_slot('other', 'pgoutput')")
        for text in (refused(dsn, tmp_path), examined(dsn, tmp_path)):
            assert "max_replication_slots" in text


def test_the_slot_is_in_use(postgres: PostgresServer, database: str, tmp_path: Path) -> None:
    """By a service of its own kind: the second one says so and the first one goes on."""
    shop.create(database)
    (tmp_path / "second").mkdir()
    with Service(database, tmp_path / "data") as service, shop.Workload(database, seed=1) as workload:
        workload.run(5)
        _until_active(database, service.prefix)
        text = refused(database, tmp_path / "second", "--set", f"slot.name={service.prefix}")
        assert service.prefix in text
        assert "in use" in text or "active" in text
        assert len(service.pids("capture")) == 1


def test_no_table_matches(database: str, tmp_path: Path) -> None:
    shop.create(database)
    text = refused(database, tmp_path, "--tables", "public.no_such_table")
    assert "no_such_table" in text


def test_an_unknown_property_is_refused_by_name(database: str, tmp_path: Path) -> None:
    text = refused(database, tmp_path, "--set", "tabel.include.list=public.orders")
    assert "tabel.include.list" in text
    assert "table.include.list" in text


@contextlib.contextmanager
def role(postgres: PostgresServer, rights: str) -> Iterator[str]:
    """A role of this test's own."""
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS tester")
        connection.execute(f"CREATE ROLE tester {rights}")
        yield "tester"
        connection.execute("DROP ROLE tester")


def _until_active(dsn: str, slot_name: str) -> None:
    query = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
    with psycopg.connect(dsn, autocommit=True) as connection:
        for _ in range(1000):
            if connection.execute(query, [slot_name]).fetchone() == (True,):
                return
            connection.execute("SELECT pg_sleep(0.02)")
    pytest.fail(f"slot {slot_name} did not become active")
