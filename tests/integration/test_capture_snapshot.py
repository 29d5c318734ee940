"""Snapshots on a real server: ranges in parallel, markers, interruptions, tables that come later."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture.errors import CaptureError
from capture.postgres import snapshot_table
from capture.postgres.postgres_capture import PostgresCapture
from capture.postgres.snapshot import Snapshot
from protocol.records import Record
from tests.support.capture_process import CaptureProcess, read_topics
from tests.support.capture_thread import CaptureThread, options_for
from tests.support.fold import Record as FoldRecord
from tests.support.fold import decode_json, differences, fold

JSON = {
    "key.converter": "json",
    "key.converter.schemas.enable": "false",
    "value.converter": "json",
    "value.converter.schemas.enable": "false",
}
Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def sql(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def values(records: list[Record]) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in records if record.value is not None]


def markers(records: list[Record]) -> list[str]:
    return [value["source"]["snapshot"] for value in values(records)]


def assert_equal(sql: Connection, data: Path, *tables: str) -> None:
    """Every topic folds, strictly, into its table."""
    topics = read_topics(data)
    for table in tables:
        name = f"shop.public.{table}"
        records = [FoldRecord(name, 0, r.offset, r.key, r.value) for r in topics[name]]
        assert differences(sql, table, fold(records, decode_json).result()) == []


def hook(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do something once, right after the snapshot was taken and before any row is read."""
    original = Snapshot._prepare
    done = []

    def prepare(self: Snapshot, connection: Connection, begun: bool) -> None:
        if not done:
            done.append(True)
            act()
        original(self, connection, begun)

    monkeypatch.setattr(Snapshot, "_prepare", prepare)


def test_ranges_of_one_table_are_read_in_parallel(
    database: str, sql: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_table, "RANGE_BLOCKS", 3)
    sql.execute("CREATE TABLE big (id int PRIMARY KEY, note text)")
    sql.execute("INSERT INTO big SELECT g, repeat('x', 100) FROM generate_series(1, 5000) g")
    sql.execute("DELETE FROM big WHERE id BETWEEN 1000 AND 2000")  # ranges without a row
    options = options_for(database, "c", {**JSON, "snapshot.max.threads": "4"})
    CaptureThread(options, tmp_path / "log").until_streaming().stop()
    found = markers(read_topics(tmp_path / "log")["shop.public.big"])
    assert (found[0], found[-1]) == ("first", "last")
    assert set(found[1:-1]) == {"true"}
    assert_equal(sql, tmp_path / "log", "big")


def test_markers_of_several_tables(database: str, sql: Connection, tmp_path: Path) -> None:
    sql.execute("CREATE TABLE a_empty (id int); CREATE TABLE b (id int); CREATE TABLE c (id int)")
    sql.execute("CREATE TABLE d (id int); CREATE TABLE e_empty (id int)")
    sql.execute("INSERT INTO b VALUES (1), (2), (3); INSERT INTO c VALUES (1); INSERT INTO d VALUES (1), (2)")
    CaptureThread(options_for(database, "c", JSON), tmp_path / "log").until_streaming().stop()
    topics = read_topics(tmp_path / "log")
    assert markers(topics["shop.public.b"]) == ["first", "true", "last_in_data_collection"]
    assert markers(topics["shop.public.c"]) == ["last_in_data_collection"]
    assert markers(topics["shop.public.d"]) == ["first_in_data_collection", "last"]
    assert topics["shop.public.a_empty"] == topics["shop.public.e_empty"] == []


@pytest.mark.parametrize(
    "ddl",
    [
        # Rewritten, so that it looks empty to older snapshots.
        "ALTER TABLE t ALTER COLUMN v TYPE bigint USING v + 1000",
        "TRUNCATE t; INSERT INTO t VALUES (7, 7)",
        "ALTER TABLE t DROP COLUMN v",
        "ALTER TABLE t ADD COLUMN w text",
        "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (9, 9)",
    ],
)
def test_a_table_that_changes_under_the_snapshot(
    ddl: str, database: str, sql: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost: what the old snapshot cannot show any more is read on a newer one."""
    sql.execute("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY)")
    sql.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 500) g; INSERT INTO u VALUES (1)")
    mode = {"publication.autocreate.mode": "all_tables"}
    hook(monkeypatch, lambda: sql.execute(ddl.encode()) and None)
    with CaptureThread(options_for(database, "c", {**JSON, **mode}), tmp_path / "log") as running:
        running.until_streaming()
        sql.execute("INSERT INTO t (id) VALUES (1001); DELETE FROM t WHERE id = 2")
        sql.execute("UPDATE t SET id = 0 WHERE id = 3")
        running.until_caught_up(database)
        running.stop()
    assert_equal(sql, tmp_path / "log", "t", "u")


def test_a_table_dropped_under_the_snapshot(
    database: str, sql: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    sql.execute("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)")
    hook(monkeypatch, lambda: sql.execute("DROP TABLE t") and None)
    CaptureThread(options_for(database, "c", JSON), tmp_path / "log").until_streaming().stop()
    assert_equal(sql, tmp_path / "log", "u")


def test_an_interrupted_snapshot_goes_on_with_the_tables_that_are_left(
    database: str, sql: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Complete tables stay; the others are read on a newer snapshot, whose changes the stream hides."""
    for table in ("a", "b", "c"):
        sql.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v int)".encode())
        sql.execute(f"INSERT INTO {table} SELECT g, g FROM generate_series(1, 300) g".encode())
    options = options_for(database, "c", {**JSON, "snapshot.max.threads": "1"})
    original, completed = Snapshot._complete, []

    def complete(self: Snapshot, done: Any, callback: Any) -> None:
        original(self, done, callback)
        completed.extend(each.table.name for each in done)
        if completed:
            raise CaptureError("the power went", "")

    with monkeypatch.context() as broken:
        broken.setattr(Snapshot, "_complete", complete)
        with pytest.raises(CaptureError, match="power"):
            CaptureThread(options, tmp_path / "log").join()
    assert completed == ["a"]
    before = read_topics(tmp_path / "log")
    assert [len(before[f"shop.public.{table}"]) for table in "abc"] == [300, 0, 0]
    for table in ("a", "b", "c"):  # seen by the newer snapshot, and in the stream as well
        sql.execute(f"UPDATE {table} SET v = -v WHERE id < 50; DELETE FROM {table} WHERE id = 60".encode())
        sql.execute(f"INSERT INTO {table} VALUES (1000, 1)".encode())
    with CaptureThread(options, tmp_path / "log") as running:
        running.until_caught_up(database)
        sql.execute("INSERT INTO b VALUES (1001, 2); UPDATE c SET v = 5 WHERE id = 1000")
        running.until_caught_up(database)
        running.stop()
    after = read_topics(tmp_path / "log")
    assert after["shop.public.a"][:300] == before["shop.public.a"]
    assert [value["op"] for value in values(after["shop.public.b"])] == ["r"] * 300 + ["c"]
    assert markers(after["shop.public.c"]).count("last") == 1
    assert_equal(sql, tmp_path / "log", "a", "b", "c")


def test_a_slot_without_a_saved_position(database: str, sql: Connection, tmp_path: Path) -> None:
    """Killed between making the slot and saving anything; what followed is in snapshot and stream, once."""
    sql.execute("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE PUBLICATION dbz_publication FOR TABLE t")
    sql.execute("INSERT INTO t SELECT g, g FROM generate_series(1, 100) g")
    options = options_for(database, "c", JSON)
    sql.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [options.slot.name])
    sql.execute(
        "INSERT INTO t VALUES (101, 1); UPDATE t SET v = 0 WHERE id < 10; DELETE FROM t WHERE id = 50"
    )
    with CaptureThread(options, tmp_path / "log") as running:
        running.until_streaming()
        sql.execute("INSERT INTO t VALUES (102, 1)")
        running.until_caught_up(database)
        running.stop()
    assert [v["op"] for v in values(read_topics(tmp_path / "log")["shop.public.t"])] == ["r"] * 100 + ["c"]
    assert_equal(sql, tmp_path / "log", "t")


def test_transactions_in_flight_while_a_later_snapshot_is_taken(
    database: str, sql: Connection, tmp_path: Path
) -> None:
    """What the snapshot does not see is not hidden, whenever it began; what it sees is, whenever it ends."""
    sql.execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE PUBLICATION dbz_publication FOR TABLE t")
    options = options_for(database, "c", JSON)
    sql.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [options.slot.name])
    with (
        psycopg.connect(database) as before,
        psycopg.connect(database) as across,
        psycopg.connect(database, autocommit=True) as after,
    ):
        before.execute("INSERT INTO t VALUES (1, 'before')")
        across.execute("SELECT pg_current_xact_id()")  # has an id, writes the table only later
        sql.execute("INSERT INTO t VALUES (2, 'seen')")
        before.commit()
        with CaptureThread(options, tmp_path / "log") as running:
            running.until_streaming()
            across.execute("INSERT INTO t VALUES (3, 'across')")
            after.execute("INSERT INTO t VALUES (4, 'after')")
            across.commit()
            running.until_caught_up(database)
            running.stop()
    found = [(v["op"], v["after"]["v"]) for v in values(read_topics(tmp_path / "log")["shop.public.t"])]
    assert sorted(found) == [("c", "across"), ("c", "after"), ("r", "before"), ("r", "seen")]


def test_a_table_that_matches_only_later(database: str, sql: Connection, tmp_path: Path) -> None:
    """It is added to the publication and read alone; what streams is not disturbed."""
    sql.execute("CREATE TABLE old (id int PRIMARY KEY); CREATE TABLE new (id int PRIMARY KEY, v int)")
    sql.execute("INSERT INTO old VALUES (1); INSERT INTO new SELECT g, g FROM generate_series(1, 100) g")
    first = options_for(database, "c", {**JSON, "table.include.list": "public.old"})
    CaptureThread(first, tmp_path / "log").until_streaming().stop()
    sql.execute("INSERT INTO old VALUES (2); UPDATE new SET v = 0 WHERE id < 10")
    with psycopg.connect(database) as writer:
        # Wrote before the table was published and commits after: the snapshot has to wait for it.
        writer.execute("UPDATE new SET v = -1 WHERE id = 50")
        second = options_for(database, "c", {**JSON, "table.include.list": "public.old,public.new"})
        with CaptureThread(second, tmp_path / "log") as running:
            time.sleep(0.7)
            assert running.capture.phase == "starting"
            writer.commit()
            running.until_streaming()
            sql.execute("INSERT INTO new VALUES (101, 1); INSERT INTO old VALUES (3)")
            running.until_caught_up(database)
            running.stop()
    topics = read_topics(tmp_path / "log")
    assert [value["op"] for value in values(topics["shop.public.old"])] == ["r", "c", "c"]
    assert [value["op"] for value in values(topics["shop.public.new"])] == ["r"] * 100 + ["c"]
    assert_equal(sql, tmp_path / "log", "old", "new")
    members = sql.execute("SELECT tablename FROM pg_publication_tables ORDER BY 1").fetchall()
    assert members == [("new",), ("old",)]


def test_a_table_that_matches_no_more_leaves_the_publication(
    database: str, sql: Connection, tmp_path: Path
) -> None:
    sql.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    CaptureThread(options_for(database, "c", JSON), tmp_path / "log").until_streaming().stop()
    only = options_for(database, "c", {**JSON, "table.exclude.list": "public.b"})
    with CaptureThread(only, tmp_path / "log") as running:
        running.until_streaming()
        sql.execute("INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)")
        running.until_caught_up(database)
        running.stop()
    topics = read_topics(tmp_path / "log")
    assert (len(topics["shop.public.a"]), len(topics["shop.public.b"])) == (1, 0)
    assert sql.execute("SELECT tablename FROM pg_publication_tables").fetchall() == [("a",)]


def test_row_filters_and_column_lists_hold_for_the_snapshot(
    database: str, sql: Connection, tmp_path: Path
) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY, v int, secret text)")
    sql.execute("INSERT INTO t VALUES (1, 1, 's'), (2, 20, 's'), (3, 30, 's')")
    sql.execute("CREATE PUBLICATION dbz_publication FOR TABLE t (id, v) WHERE (id > 1)")
    options = options_for(database, "c", {**JSON, "publication.autocreate.mode": "disabled"})
    with CaptureThread(options, tmp_path / "log") as running:
        running.until_streaming()
        sql.execute("INSERT INTO t VALUES (0, 0, 's'), (4, 40, 's')")
        running.until_caught_up(database)
        running.stop()
    found = values(read_topics(tmp_path / "log")["shop.public.t"])
    assert [value["after"] for value in found] == [{"id": i, "v": i * 10} for i in (2, 3, 4)]
    assert found[1]["source"]["snapshot"] == "last"


@pytest.mark.parametrize("via_root", [False, True])
def test_partitions_are_read_as_they_are_streamed(
    via_root: bool, database: str, sql: Connection, tmp_path: Path
) -> None:
    sql.execute("CREATE TABLE p (id int, k int, PRIMARY KEY (id, k)) PARTITION BY LIST (k)")
    sql.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)")
    sql.execute("CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) PARTITION BY HASH (id)")
    sql.execute("CREATE TABLE p2a PARTITION OF p2 FOR VALUES WITH (MODULUS 1, REMAINDER 0)")
    sql.execute("INSERT INTO p VALUES (1, 1), (2, 2)")
    options = options_for(database, "c", {**JSON, "publish.via.partition.root": str(via_root).lower()})
    with CaptureThread(options, tmp_path / "log") as running:
        running.until_streaming()
        sql.execute("CREATE TABLE p3 PARTITION OF p FOR VALUES IN (3)")
        sql.execute("INSERT INTO p VALUES (3, 1), (4, 2), (5, 3)")
        running.until_caught_up(database)
        running.stop()
    counts = {topic: len(records) for topic, records in read_topics(tmp_path / "log").items()}
    if via_root:
        assert counts == {"shop.public.p": 5}
    else:
        assert counts == {"shop.public.p1": 2, "shop.public.p2a": 2, "shop.public.p3": 1}


def test_inherited_tables_are_read_apart(database: str, sql: Connection, tmp_path: Path) -> None:
    sql.execute("CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (more int) INHERITS (parent)")
    sql.execute("INSERT INTO parent VALUES (1); INSERT INTO child VALUES (2, 2)")
    CaptureThread(options_for(database, "c", JSON), tmp_path / "log").until_streaming().stop()
    counts = {topic: len(records) for topic, records in read_topics(tmp_path / "log").items()}
    assert counts == {"shop.public.parent": 1, "shop.public.child": 1}


def test_the_modes_of_a_snapshot(database: str, sql: Connection, tmp_path: Path) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")

    def ops(mode: str, name: str) -> list[str]:
        options = options_for(database, name, {**JSON, "snapshot.mode": mode, "topic.prefix": name})
        running = CaptureThread(options, tmp_path / "log")
        if mode == "initial_only":
            running.join()
        else:
            running.until_caught_up(database)
            running.stop()
        return [value["op"] for value in values(read_topics(tmp_path / "log")[f"{name}.public.t"])]

    assert ops("initial_only", "only") == ["r"]
    assert ops("initial_only", "only") == ["r"]  # done is done
    assert (
        sql.execute("SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE '%only'").fetchall()
        == []
    )
    assert ops("initial", "initial") == ["r"]
    assert ops("always", "always") == ["r"]
    options = options_for(database, "none", {**JSON, "snapshot.mode": "no_data", "topic.prefix": "none"})
    CaptureThread(options, tmp_path / "log").until_streaming().stop()
    sql.execute("INSERT INTO t VALUES (2)")
    assert ops("no_data", "none") == ["c"]
    assert ops("initial", "initial") == ["r", "c"]
    # What the new snapshot sees is not streamed as well.
    assert ops("always", "always") == ["r", "r", "r"]


def test_only_the_collections_asked_for_are_read(database: str, sql: Connection, tmp_path: Path) -> None:
    sql.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    sql.execute("INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)")
    settings = {**JSON, "snapshot.include.collection.list": "public.a"}
    with CaptureThread(options_for(database, "c", settings), tmp_path / "log") as running:
        running.until_streaming()
        sql.execute("INSERT INTO a VALUES (2); INSERT INTO b VALUES (2)")
        running.until_caught_up(database)
        running.stop()
    topics = read_topics(tmp_path / "log")
    assert [value["op"] for value in values(topics["shop.public.a"])] == ["r", "c"]
    assert [value["op"] for value in values(topics["shop.public.b"])] == ["c"]


def test_a_lost_slot_is_an_error_or_a_new_snapshot(database: str, sql: Connection, tmp_path: Path) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    options = options_for(database, "c", JSON)
    CaptureThread(options, tmp_path / "log").until_streaming().stop()
    sql.execute("SELECT pg_drop_replication_slot(%s)", [options.slot.name])
    with pytest.raises(CaptureError, match=r"is gone.*when_needed"):
        CaptureThread(options, tmp_path / "log").join()
    again = options_for(database, "c", {**JSON, "snapshot.mode": "when_needed"})
    CaptureThread(again, tmp_path / "log").until_streaming().stop()
    assert markers(read_topics(tmp_path / "log")["shop.public.t"]) == ["last", "last"]


def test_a_slot_that_went_ahead_is_an_error(database: str, sql: Connection, tmp_path: Path) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    options = options_for(database, "c", JSON)
    CaptureThread(options, tmp_path / "log").until_streaming().stop()
    sql.execute("INSERT INTO t VALUES (1)")
    sql.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", [options.slot.name])
    with pytest.raises(CaptureError, match="somebody else read from the slot"):
        CaptureThread(options, tmp_path / "log").join()


def test_a_slot_dropped_on_stop_begins_anew(database: str, sql: Connection, tmp_path: Path) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    options = options_for(database, "c", {**JSON, "slot.drop.on.stop": "true"})
    CaptureThread(options, tmp_path / "log").until_streaming().stop()
    assert sql.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)
    CaptureThread(options, tmp_path / "log").until_streaming().stop()
    assert markers(read_topics(tmp_path / "log")["shop.public.t"]) == ["last", "last"]


def test_what_is_not_visible_is_not_there_yet(
    database: str, sql: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table becomes visible in one commit; progress is told before."""
    sql.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    sql.execute("INSERT INTO t SELECT g, repeat('v', 500) FROM generate_series(1, 20000) g; ANALYZE t")
    seen = []
    original = PostgresCapture._read_pending

    def read_pending(self: PostgresCapture, *arguments: Any) -> None:
        original(self, *arguments)
        seen.append(self._status._gathered()["tables"])

    monkeypatch.setattr(PostgresCapture, "_read_pending", read_pending)
    CaptureThread(options_for(database, "c", JSON), tmp_path / "log").until_streaming().stop()
    assert seen == [{"shop.public.t": {"rows_done": 20000, "rows_estimated": 20000, "done": True}}]


def test_kills_while_a_snapshot_is_taken(database: str, sql: Connection, tmp_path: Path) -> None:
    """Kill -9 at random moments, with changes between; at the end every topic folds into its table."""
    chance = random.Random(4)
    tables = [f"t{number}" for number in range(6)]
    for table in tables:
        sql.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v int, note text)".encode())
        sql.execute(
            f"INSERT INTO {table} SELECT g, g, repeat('n', 200) FROM generate_series(1, 12000) g".encode()
        )
    capture = CaptureProcess(database, tmp_path / "log", settings=JSON)
    with capture:
        for _ in range(8):
            time.sleep(chance.uniform(0.3, 1.1))
            capture.kill()
            for table in tables:
                number = chance.randrange(1, 12000)
                sql.execute(f"UPDATE {table} SET v = v + 1 WHERE id % 100 = {number % 100}".encode())
                sql.execute(f"DELETE FROM {table} WHERE id = {number}".encode())
                insert = f"INSERT INTO {table} VALUES ({20000 + number}, 1) ON CONFLICT DO NOTHING"
                sql.execute(insert.encode())
            capture.start()
        capture.wait_until_caught_up()
        assert capture.stop() == 0
    assert_equal(sql, tmp_path / "log", *tables)
