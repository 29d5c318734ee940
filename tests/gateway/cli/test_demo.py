"""The demo: it proves what it shows, it finds what differs, and it leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from gateway.demo import shop
from gateway.demo.feed import Change
from gateway.demo.proof import Folded, prove
from tests.gateway.cli.terminal import Terminal
from tests.support.process import tidegate
from tests.support.service import ROOT

ADDRESSES = [part for name in ("kafka", "registry", "admin") for part in (f"--{name}", "127.0.0.1:0")]


def leftovers() -> set[str]:
    """Folders and processes of demos."""
    folders = {str(path) for path in Path(tempfile.gettempdir()).glob("tidegate-demo-*")}
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if "tidegate-demo-" in line:
            folders.add(line)
    return folders


def test_once_proves_every_table_and_leaves_nothing() -> None:
    before = leftovers()
    done = subprocess.run(
        tidegate("demo", "--once", "--json", *ADDRESSES),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    proof = json.loads(done.stdout)
    assert proof["proved"] is True
    assert set(proof["tables"]) == set(shop.TABLES)
    streamed = 0
    for table in proof["tables"].values():
        assert table["differences"] == []
        assert table["snapshot"] > 0
        streamed += table["inserts"] + table["updates"] + table["deletes"]
    assert streamed >= 100
    assert leftovers() <= before


def test_on_a_terminal_it_shows_a_feed_until_ctrl_c() -> None:
    before = leftovers()
    terminal = Terminal(tidegate("demo", *ADDRESSES))
    try:
        shown = terminal.read_until("  update  ", timeout_s=90)
        for words in ("kcat -C -b", "examples/spark/changes.py", "examples/clickhouse/replica.py", "psql"):
            assert words in shown
        assert "shop.public.orders" in shown
        terminal.type("\x03")
        assert terminal.wait() == 0, terminal.shown
        assert "Traceback" not in terminal.shown
    finally:
        terminal.close()
    assert leftovers() <= before


class Recorded:
    """Stands in for the reader: hands out changes that a test wrote down."""

    def __init__(self, *changes: tuple[str, Mapping[str, Any], Mapping[str, Any] | None]) -> None:
        self._changes = [
            Change(f"shop.public.{table}", offset, key, envelope)
            for offset, (table, key, envelope) in enumerate(changes)
        ]

    def poll(self, timeout_s: float = 0.0) -> Iterator[Change]:
        changes, self._changes = self._changes, []
        yield from changes

    def behind(self) -> int:
        return len(self._changes)


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as connected:
        connected.execute(
            "CREATE TABLE items (id bigint PRIMARY KEY, price numeric(8,2), tags text[], details jsonb)"
        )
        connected.execute(
            "INSERT INTO items VALUES (1, 2.50, '{a,NULL}', '{\"x\": [1]}'), (2, NULL, NULL, NULL)"
        )
        yield connected


ONE = {"id": 1, "price": Decimal("2.50"), "tags": ["a", None], "details": '{"x": [1]}'}
TWO = {"id": 2, "price": None, "tags": None, "details": None}


def change(op: str, number: int, after: Mapping[str, Any] | None) -> tuple[str, Any, Any]:
    return "items", {"id": number}, {"op": op, "after": after}


def test_a_topic_that_equals_its_table_is_proved(connection: psycopg.Connection[Any]) -> None:
    reader = Recorded(
        change("r", 1, {**ONE, "tags": []}),
        change("r", 3, {**TWO, "id": 3}),
        change("u", 1, ONE),
        change("c", 2, TWO),
        change("d", 3, None),
        ("items", {"id": 3}, None),
    )
    expected = {("items", "r"): 2, ("items", "u"): 1, ("items", "c"): 1, ("items", "d"): 1}
    (proof,) = prove(reader, Folded(), connection, ["items"], expected)  # type: ignore[arg-type]  # a stand-in
    assert proof.differences == ()
    assert (proof.rows, proof.snapshot) == (2, 2)
    assert proof.streamed == {"c": 1, "u": 1, "d": 1}


@pytest.mark.parametrize(
    ("changes", "expected", "words"),
    [
        ([change("r", 1, ONE)], {"r": 1}, "only in the table: (2"),
        (
            [change("r", 1, ONE), change("r", 2, {**TWO, "price": Decimal(1)})],
            {"r": 2},
            "only in the topic: (2,1.00",
        ),
        (
            [change("r", 1, ONE), change("r", 2, TWO), change("u", 2, TWO)],
            {"r": 2},
            "op u: 0 committed, 1 in the topic",
        ),
        ([change("r", 1, ONE), change("c", 2, TWO)], {"r": 1, "c": 2}, "op c: 2 committed, 1 in the topic"),
    ],
)
def test_what_differs_is_said(
    connection: psycopg.Connection[Any], changes: Any, expected: Mapping[str, int], words: str
) -> None:
    counts = Counter({("items", op): count for op, count in expected.items()})
    reader: Any = Recorded(*changes)
    (proof,) = prove(reader, Folded(), connection, ["items"], counts, timeout_s=0.1)
    assert words in "\n".join(proof.differences)


def test_the_load_counts_what_it_commits(database: str) -> None:
    """Its counts are the proof's expectation, so they are held against the server's own."""
    shop.create(database)
    statistics = (
        "SELECT relname::text, n_tup_ins, n_tup_upd, n_tup_del"
        " FROM pg_stat_user_tables WHERE relname = ANY(%s)"
    )
    with psycopg.connect(database, autocommit=True) as connection:

        def counted() -> Counter[tuple[str, str]]:
            connection.execute("SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()")
            found: Counter[tuple[str, str]] = Counter()
            for name, inserted, updated, deleted in connection.execute(statistics, [list(shop.TABLES)]):
                found.update({(name, "c"): inserted, (name, "u"): updated, (name, "d"): deleted})
            return found

        before = counted()
        with shop.Load(database, per_second=2000) as load:
            while sum(load.changes.values()) < 500 and load.failure is None:
                time.sleep(0.02)
        assert load.failure is None
        # The backend of the load flushed its statistics when it disconnected.
        after = counted()
        after.subtract(before)
        assert {key: n for key, n in after.items() if n} == {key: n for key, n in load.changes.items() if n}
