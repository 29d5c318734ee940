"""Tables that leave a capture and come back: what they missed is read anew."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture.errors import CaptureError
from capture.options import CaptureOptions
from capture.postgres import relation_catalog
from capture.postgres.postgres_capture import PostgresCapture
from capture.postgres.snapshot import Snapshot
from tests.support.capture_process import read_topics
from tests.support.capture_thread import CaptureThread, options_for

JSON = {
    "key.converter": "json",
    "key.converter.schemas.enable": "false",
    "value.converter": "json",
    "value.converter.schemas.enable": "false",
}
WITHOUT_T = {"table.exclude.list": "public.t"}
DISABLED = {"publication.autocreate.mode": "disabled"}
Connection = psycopg.Connection[tuple[Any, ...]]


class Source:
    """Two tables, t and u, and one capture that is started and stopped again and again."""

    def __init__(self, dsn: str, sql: Connection, data: Path) -> None:
        self.dsn = dsn
        self.execute = sql.execute
        self.data = data

    def options(self, settings: Mapping[str, str] | None = None) -> CaptureOptions:
        return options_for(self.dsn, "c", {**JSON, **(settings or {})})

    def run(self, settings: Mapping[str, str] | None = None) -> None:
        """One life of the capture, until it has all there is."""
        with CaptureThread(self.options(settings), self.data) as running:
            running.until_caught_up(self.dsn)
            running.stop()

    def fails(self, problem: str) -> None:
        with pytest.raises(CaptureError, match=problem):
            CaptureThread(self.options(), self.data).join()

    def changes(self, table: str = "t") -> list[tuple[str, int]]:
        """(op, id) of every record."""
        values = [json.loads(record.value or "") for record in read_topics(self.data)[f"shop.public.{table}"]]
        return [(value["op"], value["after"]["id"]) for value in values]


@pytest.fixture
def source(database: str, tmp_path: Path) -> Iterator[Source]:
    with psycopg.connect(database, autocommit=True) as sql:
        sql.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
        sql.execute("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)")
        yield Source(database, sql, tmp_path / "log")


def power_goes(*_: object) -> None:
    raise CaptureError("the power went", "")


def test_a_table_put_back_into_the_filter_is_read_anew(source: Source) -> None:
    source.run()
    source.execute("INSERT INTO t VALUES (2)")
    source.run(WITHOUT_T)
    source.execute("INSERT INTO t VALUES (3); INSERT INTO u VALUES (2)")
    source.run()
    source.execute("INSERT INTO t VALUES (4)")
    source.run()  # once is enough
    assert source.changes() == [("r", 1), ("r", 1), ("r", 2), ("r", 3), ("c", 4)]
    assert source.changes("u") == [("r", 1), ("c", 2)]


def test_a_table_excluded_before_it_was_read_is_read_when_it_comes_back(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(Snapshot, "_prepare", power_goes)
        source.fails("power")
    source.run(WITHOUT_T)
    source.run()
    assert source.changes() == source.changes("u") == [("r", 1)]


def test_a_table_that_somebody_took_out_of_the_publication_is_read_anew(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.run()
    source.execute("ALTER PUBLICATION dbz_publication DROP TABLE t")
    source.execute("INSERT INTO t VALUES (2)")
    with monkeypatch.context() as broken:  # killed as soon as it was added again
        broken.setattr(PostgresCapture, "_begin", power_goes)
        source.fails("power")
    assert len(source.execute("SELECT FROM pg_publication_tables").fetchall()) == 2
    source.run()
    assert source.changes() == [("r", 1), ("r", 1), ("r", 2)]
    assert source.changes("u") == [("r", 1)]


def test_a_table_out_of_the_publication_while_it_waits_to_be_read(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.execute("CREATE PUBLICATION dbz_publication FOR TABLE t, u")
    with monkeypatch.context() as broken:
        broken.setattr(Snapshot, "_prepare", power_goes)
        source.fails("power")
    source.execute("ALTER PUBLICATION dbz_publication DROP TABLE t")
    source.run(DISABLED)
    assert source.changes("u") == [("r", 1)]
    source.execute("INSERT INTO t VALUES (2); ALTER PUBLICATION dbz_publication ADD TABLE t")
    source.run(DISABLED)
    assert source.changes() == [("r", 1), ("r", 2)]


def test_a_table_renamed_while_it_is_about_to_be_read(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a moment its name matches no filter; it is not given up for good."""
    original = relation_catalog.read_tables

    def read_tables(*arguments: Any) -> Any:
        found = original(*arguments)
        source.execute("ALTER TABLE t RENAME TO elsewhere")
        return found

    only = {"table.include.list": "public.t,public.u"}
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("capture.postgres.postgres_capture.read_tables", read_tables)
        source.run(only)
    source.execute("ALTER TABLE elsewhere RENAME TO t")
    source.run(only)
    assert source.changes() == source.changes("u") == [("r", 1)]


def test_no_data_means_no_rows_for_what_comes_back_either(source: Source) -> None:
    mode = {"snapshot.mode": "no_data"}
    source.run(mode)
    source.run({**mode, **WITHOUT_T})
    source.execute("INSERT INTO t VALUES (2)")
    source.run(mode)
    source.execute("INSERT INTO t VALUES (3)")
    source.run(mode)
    assert source.changes() == [("c", 3)]


def test_the_key_of_a_table_that_was_away_is_kept(source: Source) -> None:
    """Its changes from before are streamed although the table is gone; they have their key."""
    source.execute("CREATE TABLE k (a int, b int, PRIMARY KEY (b, a))")
    source.run()
    source.execute("INSERT INTO k VALUES (1, 2); DROP TABLE k")
    source.run()
    [record] = read_topics(source.data)["shop.public.k"]
    assert list(json.loads(record.key or "")) == ["b", "a"]
