"""On a standby no snapshot but the slot's can be joined to a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from capture.errors import CaptureError
from capture.lsn import Lsn
from capture.postgres.slot import NewSlot
from capture.postgres.snapshot import export

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def standby(database: str) -> Iterator[Connection]:
    """A connection to a server that says it is in recovery."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA standby")
        for name, answer in (
            ("pg_is_in_recovery() RETURNS bool", "true"),
            ("pg_last_wal_replay_lsn() RETURNS pg_lsn", "'0/5'::pg_lsn"),
        ):
            connection.execute(f"CREATE FUNCTION standby.{name} LANGUAGE sql AS $$SELECT {answer}$$".encode())
        connection.execute("SET search_path = standby, pg_catalog")
        yield connection


def test_a_snapshot_of_its_own_is_refused(standby: Connection) -> None:
    with pytest.raises(CaptureError, match="the server is a standby") as raised:
        export(standby, streams=True)
    assert not raised.value.retry
    for way_out in ("primary", "slot.name", "new data directory"):
        assert way_out in raised.value.remedy


def test_without_a_stream_it_is_enough(standby: Connection) -> None:
    exported = export(standby, streams=False)
    assert exported.own
    assert exported.lsn == Lsn(5)


def test_the_snapshot_of_the_slot_is_read(database: str, standby: Connection) -> None:
    with psycopg.connect(database) as exporter:
        exporter.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        name = exporter.execute("SELECT pg_export_snapshot()").fetchone()
        assert name is not None
        assert not export(standby, NewSlot(Lsn(7), name[0]), streams=True).own


def test_a_primary_may_be_read_at_any_time(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as primary:
        assert export(primary, streams=True).own
