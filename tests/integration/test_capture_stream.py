"""The stream on a real server: exactly once over restarts, DDL on the way, feedback, spilling, errors."""

from __future__ import annotations

import base64
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture.errors import CaptureError
from capture.lsn import Lsn
from capture.postgres import log_sink, streaming
from capture.postgres.streaming import Streaming
from protocol.records import Record
from tests.support import shop
from tests.support.capture_process import CaptureProcess, read_topics
from tests.support.capture_thread import CaptureThread, options_for
from tests.support.fold import Record as FoldRecord
from tests.support.fold import decode_json, differences, fold
from tests.support.postgres import PostgresServer

JSON = {
    "key.converter": "json",
    "key.converter.schemas.enable": "false",
    "value.converter": "json",
    "value.converter.schemas.enable": "false",
}
NO_DATA = {**JSON, "snapshot.mode": "no_data"}
Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def sql(database: str) -> Iterator[Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def values(records: list[Record]) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in records if record.value is not None]


def keys(records: list[Record]) -> list[Any]:
    return [None if record.key is None else json.loads(record.key) for record in records]


def wal_end(sql: Connection) -> Lsn:
    row = sql.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    return Lsn.parse(row[0])


def assert_equal(dsn: str, data: Path, *tables: str) -> None:
    """Every topic folds, strictly, into its table."""
    topics = read_topics(data)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for table in tables:
            name = f"shop.public.{table}"
            records = [FoldRecord(name, 0, r.offset, r.key, r.value) for r in topics[name]]
            assert differences(connection, table, fold(records, decode_json).result()) == []


# --- schema tracking ---


def test_columns_change_while_running(database: str, sql: Connection, tmp_path: Path) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY, a text)")
    with CaptureThread(options_for(database, "c", JSON), tmp_path / "log") as running:
        running.until_streaming()
        sql.execute("INSERT INTO t VALUES (1, 'a')")
        running.until_caught_up(database)
        sql.execute("ALTER TABLE t ADD COLUMN b int NOT NULL DEFAULT 5")
        sql.execute("INSERT INTO t VALUES (2, 'b', 6)")
        running.until_caught_up(database)
        sql.execute("ALTER TABLE t DROP COLUMN a")
        sql.execute("INSERT INTO t VALUES (3, 7)")
        running.until_caught_up(database)
        sql.execute("ALTER TABLE t ALTER COLUMN b TYPE text USING 'x' || b")
        sql.execute("INSERT INTO t VALUES (4, 'y')")
        running.until_caught_up(database)
        sql.execute("ALTER TABLE t RENAME COLUMN b TO c; ALTER TABLE t RENAME TO u")
        sql.execute("INSERT INTO u VALUES (5, 'z')")
        running.until_caught_up(database)
        running.stop()
    topics = read_topics(tmp_path / "log")
    assert [value["after"] for value in values(topics["shop.public.t"])] == [
        {"id": 1, "a": "a"},
        {"id": 2, "a": "b", "b": 6},
        {"id": 3, "b": 7},
        {"id": 4, "b": "y"},
    ]
    assert [value["after"] for value in values(topics["shop.public.u"])] == [{"id": 5, "c": "z"}]


def test_ddl_that_runs_ahead_of_the_stream(database: str, sql: Connection, tmp_path: Path) -> None:
    """Decision 41: the key, nullability and default of a table are those of its place in the stream."""
    sql.execute("CREATE TABLE t (b int NOT NULL DEFAULT 5, id int NOT NULL, x text, PRIMARY KEY (id, b))")
    sql.execute("CREATE TABLE f (id int PRIMARY KEY, v int); ALTER TABLE f REPLICA IDENTITY FULL")
    sql.execute("CREATE TABLE gone (id int PRIMARY KEY, v int NOT NULL)")
    avro = {"value.converter.schemas.enable": "true"}
    options = options_for(database, "c", {**JSON, **avro})
    CaptureThread(options, tmp_path / "log").until_streaming().stop()
    sql.execute("INSERT INTO t VALUES (1, 1, 'x'); INSERT INTO f VALUES (1, 1)")
    sql.execute("INSERT INTO gone VALUES (1, 1)")
    sql.execute("UPDATE f SET v = 2; DELETE FROM t")
    sql.execute("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE f DROP CONSTRAINT f_pkey; DROP TABLE gone")
    sql.execute("ALTER TABLE t ALTER COLUMN b DROP NOT NULL, ALTER COLUMN b DROP DEFAULT, DROP COLUMN x")
    sql.execute("INSERT INTO t VALUES (2, 2)")
    with CaptureThread(options, tmp_path / "log") as running:
        running.until_caught_up(database)
        running.stop()
    topics = read_topics(tmp_path / "log")
    assert keys(topics["shop.public.t"]) == [{"id": 1, "b": 1}] * 3 + [None]
    assert keys(topics["shop.public.f"]) == [{"id": 1}] * 2
    assert keys(topics["shop.public.gone"]) == [{"id": 1}]
    schema = values(topics["shop.public.gone"])[0]["schema"]
    after = schema["fields"][1]["fields"]
    assert [(field["field"], field["optional"]) for field in after] == [("id", False), ("v", False)]


def test_new_tables_are_captured_where_the_publication_covers_them(
    database: str, sql: Connection, tmp_path: Path
) -> None:
    options = options_for(database, "c", {**JSON, "publication.autocreate.mode": "all_tables"})
    with CaptureThread(options, tmp_path / "log") as running:
        running.until_streaming()
        sql.execute("CREATE TABLE made AS SELECT 1 AS id, 'a'::text AS v")
        sql.execute("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
        sql.execute("CREATE TABLE later (id positive PRIMARY KEY, m mood, ms mood[])")
        sql.execute("INSERT INTO later VALUES (1, 'ok', '{sad,ok}')")
        running.until_caught_up(database)
        running.stop()
    again = CaptureThread(options, tmp_path / "log").until_streaming()  # known by now: nothing is read again
    again.until_caught_up(database)
    again.stop()
    topics = read_topics(tmp_path / "log")
    assert [value["op"] for value in values(topics["shop.public.made"])] == ["c"]
    assert [value["after"] for value in values(topics["shop.public.later"])] == [
        {"id": 1, "m": "ok", "ms": ["sad", "ok"]}
    ]


def test_column_filters_and_key_rules(database: str, sql: Connection, tmp_path: Path) -> None:
    sql.execute(
        "CREATE TABLE t (id int PRIMARY KEY, k int NOT NULL, secret text); INSERT INTO t VALUES (1, 2, 's')"
    )
    settings = {
        **JSON,
        "column.exclude.list": r"public\.t\.(secret|k)",
        "message.key.columns": "public.t:k,id",
        "topic.delimiter": "-",
    }
    with CaptureThread(options_for(database, "c", settings), tmp_path / "log") as running:
        running.until_streaming()
        sql.execute("INSERT INTO t VALUES (3, 4, 's')")
        running.until_caught_up(database)
        running.stop()
    (records,) = read_topics(tmp_path / "log").values()
    assert list(read_topics(tmp_path / "log")) == ["shop-public-t"]
    assert [(key, value["after"]) for key, value in zip(keys(records), values(records), strict=True)] == [
        ({"k": 2, "id": 1}, {"id": 1}),
        ({"k": 4, "id": 3}, {"id": 3}),
    ]


def test_a_lock_on_the_table_does_not_stop_the_stream(database: str, sql: Connection, tmp_path: Path) -> None:
    """A migration holds ACCESS EXCLUSIVE while the table's first changes arrive."""
    sql.execute("CREATE TABLE t (id serial PRIMARY KEY, v int NOT NULL DEFAULT 7)")
    options = options_for(database, "c", NO_DATA)
    CaptureThread(options, tmp_path / "log").until_streaming().stop()
    sql.execute("INSERT INTO t DEFAULT VALUES")
    with psycopg.connect(database) as migration:
        migration.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with CaptureThread(options, tmp_path / "log") as running:
            running.until_caught_up(database)
            migration.rollback()
            running.stop()
    assert [value["after"] for value in values(read_topics(tmp_path / "log")["shop.public.t"])] == [
        {"id": 1, "v": 7}
    ]


# --- logical messages, transactions ---


def test_messages_come_once_over_restarts(database: str, sql: Connection, tmp_path: Path) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    options = options_for(database, "c", NO_DATA)
    CaptureThread(options, tmp_path / "log").until_streaming().stop()
    for number in range(6):
        sql.execute("SELECT pg_logical_emit_message(false, 'p', %s)", [f"alone {number}"])
        with sql.transaction():
            sql.execute("INSERT INTO t VALUES (%s)", [number])
            sql.execute("SELECT pg_logical_emit_message(true, 'p', %s)", [f"inside {number}"])
            # Its record comes right before the commit record of the transaction.
            sql.execute("SELECT pg_logical_emit_message(false, 'p', %s)", [f"before {number}"])
        for _ in range(2):
            with CaptureThread(options, tmp_path / "log") as running:
                running.until_caught_up(database)
                running.stop()
    topics = read_topics(tmp_path / "log")
    assert [value["after"]["id"] for value in values(topics["shop.public.t"])] == list(range(6))
    contents = [base64.b64decode(v["message"]["content"]).decode() for v in values(topics["shop.message"])]
    expected = [text for n in range(6) for text in (f"alone {n}", f"before {n}", f"inside {n}")]
    assert contents == expected


def test_a_huge_transaction_is_spilled_and_visible_at_once(
    database: str, sql: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_APPEND_BYTES", 50_000)
    monkeypatch.setattr(streaming, "_SPILL_BYTES", 100_000)
    sql.execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY)")
    spilled = []
    original = log_sink.LogSink.complete_open

    def complete_open(self: log_sink.LogSink) -> None:
        spilled.append({partition.topic for partition in self._open})
        original(self)

    monkeypatch.setattr(log_sink.LogSink, "complete_open", complete_open)
    with CaptureThread(options_for(database, "c", JSON), tmp_path / "log") as running:
        running.until_streaming()
        with sql.transaction():
            sql.execute("INSERT INTO u VALUES (1)")
            sql.execute("INSERT INTO t SELECT g, repeat('v', 300) FROM generate_series(1, 5000) g")
            sql.execute("INSERT INTO u VALUES (2)")
        sql.execute("INSERT INTO t VALUES (0, 'after')")
        running.until_caught_up(database)
        running.stop()
    assert spilled == [{"shop.public.t", "shop.public.u"}]
    assert_equal(database, tmp_path / "log", "t", "u")


def test_a_break_inside_a_spilled_transaction(
    database: str, sql: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was appended of it is cut, and comes again whole."""
    monkeypatch.setattr(streaming, "_APPEND_BYTES", 20_000)
    monkeypatch.setattr(streaming, "_SPILL_BYTES", 40_000)
    sql.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    original, broken = Streaming._append, []

    def append(self: Streaming) -> None:
        original(self)
        if self._sink.has_open and len(broken) < 3:
            broken.append(True)
            sql.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
            time.sleep(0.05)

    with CaptureThread(options_for(database, "c", JSON), tmp_path / "log") as running:
        running.until_streaming()
        monkeypatch.setattr(Streaming, "_append", append)
        sql.execute("INSERT INTO t VALUES (0, 'before')")
        with psycopg.connect(database) as other, other.transaction():
            other.execute("INSERT INTO t SELECT g, repeat('v', 300) FROM generate_series(1, 20000) g")
        running.until_caught_up(database)
        running.stop()
    assert len(broken) == 3
    assert_equal(database, tmp_path / "log", "t")


def test_a_backlog_makes_the_reader_wait(
    database: str, sql: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_sink, "BACKLOG_BYTES", 100_000)
    monkeypatch.setattr(streaming, "_APPEND_BYTES", 20_000)
    sql.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    with CaptureThread(options_for(database, "c", JSON), tmp_path / "log") as running:
        running.until_streaming()
        for first in range(0, 5000, 500):
            rows = f"SELECT g, repeat('v', 300) FROM generate_series({first}, {first + 499}) g"
            sql.execute(f"INSERT INTO t {rows}".encode())
        running.until_caught_up(database)
        running.stop()
    assert_equal(database, tmp_path / "log", "t")


# --- what is confirmed ---


def confirmed(sql: Connection, slot: str) -> Lsn:
    row = sql.execute(
        "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", [slot]
    ).fetchone()
    assert row is not None
    return Lsn.parse(row[0])


def test_an_idle_slot_never_pins_wal(
    postgres: PostgresServer, database: str, sql: Connection, tmp_path: Path
) -> None:
    """Another database makes WAL; nothing of ours changes, and the slot follows all the same."""
    sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    options = options_for(database, "c", JSON)
    other = postgres.create_database()
    with CaptureThread(options, tmp_path / "log") as running:
        running.until_streaming()
        with psycopg.connect(other, autocommit=True) as noise:
            noise.execute("CREATE TABLE n AS SELECT repeat('n', 1000) FROM generate_series(1, 3000)")
        end = wal_end(sql)
        running.until(lambda: confirmed(sql, options.slot.name) >= end)
        assert running.capture.committed_lsn >= end  # the log knew it first
        running.stop()
    CaptureThread(options, tmp_path / "log").until_streaming().stop()
    postgres.drop_database(other)


def test_nothing_is_confirmed_that_is_not_durable(
    database: str, sql: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    options = options_for(database, "c", JSON)
    held = threading.Event()
    with CaptureThread(options, tmp_path / "log") as running:
        running.until_streaming()
        writer = running.capture._writer
        commit = writer.commit

        def slow(*arguments: Any) -> None:
            held.wait(20)
            commit(*arguments)

        monkeypatch.setattr(writer, "commit", slow)
        before = wal_end(sql)
        sql.execute("INSERT INTO t VALUES (1)")
        time.sleep(1.0)  # several statuses
        assert confirmed(sql, options.slot.name) <= before
        held.set()
        running.until_caught_up(database)
        running.stop()


def test_a_short_sender_timeout_is_kept(database: str, sql: Connection, tmp_path: Path) -> None:
    """Also while one transaction is sent for longer than the timeout."""
    with PostgresServer({"wal_sender_timeout": "1s"}) as server:
        dsn = server.create_database()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
            settings = {**NO_DATA, "status.update.interval.ms": "10000"}
            with CaptureThread(options_for(dsn, "c", settings), tmp_path / "log") as running:
                running.until_streaming()
                original = running.capture._sink.append

                def slow(outputs: Any) -> None:
                    time.sleep(0.2)
                    original(outputs)

                running.capture._sink.append = slow  # type: ignore[method-assign]  # a slow disk
                rows = "SELECT g, repeat('v', 2000) FROM generate_series(1, 40000) g"
                connection.execute(f"INSERT INTO t {rows}".encode())
                running.until(lambda: _rows(tmp_path / "log") == 40000)
                running.stop()
            assert "terminating walsender process due to replication timeout" not in server.log()


def _rows(data: Path) -> int:
    return sum(len(records) for records in read_topics(data).values())


# --- interruptions ---


def test_the_walsender_is_killed_again_and_again(database: str, sql: Connection, tmp_path: Path) -> None:
    shop.create(database)
    with (
        CaptureThread(options_for(database, "c", JSON), tmp_path / "log") as running,
        shop.Load(database, seed=7, rest_s=0.002) as load,
    ):
        running.until_streaming()
        for _ in range(10):
            time.sleep(0.2)
            sql.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name LIKE 'tidegate%%'"
            )
        load.stop()
        running.until_caught_up(database)
        running.stop()
    assert_equal(database, tmp_path / "log", *shop.TABLES)


@pytest.mark.parametrize("immediate", [False, True])
def test_the_server_is_restarted(immediate: bool, tmp_path: Path) -> None:
    with PostgresServer() as server:
        dsn = server.create_database()
        shop.create(dsn)
        with (
            CaptureThread(options_for(dsn, "c", JSON), tmp_path / "log") as running,
            shop.Workload(dsn, seed=3) as workload,
        ):
            running.until_streaming()
            for _ in range(3):
                workload.run(60)
                workload.close()
                begun = time.monotonic()
                server.restart(immediate=immediate)
                assert time.monotonic() - begun < 15  # a fast shutdown waits for its walsenders
            workload.run(20)
            running.until_caught_up(dsn)
            running.stop()
        assert_equal(dsn, tmp_path / "log", *shop.TABLES)


def test_retries_are_counted(tmp_path: Path) -> None:
    with PostgresServer() as server:
        dsn = server.create_database()
        settings = {**NO_DATA, "errors.max.retries": "2", "retriable.restart.connector.wait.ms": "50"}
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        with CaptureThread(options_for(dsn, "c", settings), tmp_path / "log") as running:
            running.until_streaming()
            server.stop()
            with pytest.raises(CaptureError, match="gave up after 2 retries") as caught:
                running.join()
            assert not caught.value.retry


def test_a_dropped_publication_is_said(database: str, sql: Connection, tmp_path: Path) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    options = options_for(database, "c", NO_DATA)
    CaptureThread(options, tmp_path / "log").until_streaming().stop()
    sql.execute("DROP PUBLICATION dbz_publication")
    with pytest.raises(CaptureError, match="older than the publication"):
        CaptureThread(options, tmp_path / "log").join()


def test_a_publication_dropped_while_running(database: str, sql: Connection, tmp_path: Path) -> None:
    """Found when the stream is opened again: from PostgreSQL 18 on the server says nothing by itself."""
    sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with CaptureThread(options_for(database, "c", NO_DATA), tmp_path / "log") as running:
        running.until_streaming()
        sql.execute("DROP PUBLICATION dbz_publication")
        sql.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
        with pytest.raises(CaptureError, match="younger than the slot"):
            running.join()


def test_without_a_compiler(
    database: str, sql: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The encoder that generates Python does the same."""
    monkeypatch.setattr("capture.envelope.COMPILED", False)
    shop.create(database)
    with (
        shop.Workload(database, seed=5) as workload,
        CaptureThread(options_for(database, "c", JSON), tmp_path / "log") as running,
    ):
        workload.run(50)
        running.until_streaming()
        workload.run(50)
        running.until_caught_up(database)
        running.stop()
    assert_equal(database, tmp_path / "log", *shop.TABLES)


def test_exit_codes_and_a_clear_last_line(postgres: PostgresServer, database: str, tmp_path: Path) -> None:
    def ends(dsn: str, settings: dict[str, str]) -> tuple[int, str]:
        capture = CaptureProcess(dsn, tmp_path / "log", settings=settings)
        capture.errors.unlink(missing_ok=True)
        capture.start()
        assert capture.process is not None
        code = capture.process.wait()
        return code, capture.logged()[-1]["error"]

    code, error = ends(database, {"slot.nam": "x"})
    assert (code, "did you mean" in error) == (2, True)
    code, error = ends(postgres.dsn("no_such_database"), {})
    assert (code, "no_such_database" in error) == (1, True)
    code, error = ends("postgresql://postgres@127.0.0.1:1/shop", {})
    assert (code, "refused" in error) == (75, True)
    code, error = ends(database, {})
    assert (code, "no table matches" in error) == (1, True)


def test_two_writers_of_one_capture(database: str, sql: Connection, tmp_path: Path) -> None:
    sql.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with CaptureProcess(database, tmp_path / "log", settings=JSON) as first:
        first.wait_for_snapshot()
        second = CaptureProcess(database, tmp_path / "log", settings=JSON)
        second.errors = tmp_path / "second.stderr"
        second.start()
        assert second.process is not None
        assert second.process.wait() == 75
        assert "another process" in second.logged()[-1]["error"]
        sql.execute("INSERT INTO t VALUES (1)")
        first.wait_until_caught_up()


def test_kills_under_load(database: str, tmp_path: Path) -> None:
    """Kill -9 of the capture at random moments: each change once, and every table is its topic."""
    chance = random.Random(11)
    shop.create(database)
    with shop.Workload(database, seed=1) as before:
        before.run(100)
    with (
        CaptureProcess(database, tmp_path / "log", settings=JSON) as capture,
        shop.Load(database, seed=2, rest_s=0.003) as load,
    ):
        for _ in range(int(os.environ.get("TIDEGATE_KILLS", "8"))):
            time.sleep(chance.uniform(0.3, 1.2))
            capture.kill()
            capture.start()
        load.stop()
        assert load.committed > 100
        capture.wait_until_caught_up()
        assert capture.stop() == 0
    assert_equal(database, tmp_path / "log", *shop.TABLES)


def test_status_tells_phase_progress_and_lag(database: str, sql: Connection, tmp_path: Path) -> None:
    from capture.log import Log

    sql.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 100)")
    with CaptureThread(options_for(database, "c", JSON), tmp_path / "log") as running:
        running.until_streaming()
        sql.execute("INSERT INTO t VALUES (0)")
        running.until_caught_up(database)
        running.stop()
    log = Log.open(tmp_path / "log")
    _, status = log.catalog.statuses()["c"]
    log.close()
    assert status["phase"] == "streaming"
    assert status["tables"] == {"shop.public.t": {"rows_done": 100, "rows_estimated": 100, "done": True}}
    assert (status["rows_total"], status["lag_bytes"], status["lag_seconds"]) == (101, 0, 0.0)
