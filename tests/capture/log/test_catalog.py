"""The catalog: topics keep their ids, changes cost what changed, formats are told apart."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from capture.log import Log, LogError, LogReader, NewerFormat, NoLog, TopicExists
from capture.log.catalog import Watermark


def test_a_topic_is_made_once_and_keeps_its_id(log: Log) -> None:
    made = log.catalog.create_topic("a.b", capture="one", partitions=2)
    assert made.topic_id.int != 0
    assert [row.index for row in made.partitions] == [0, 1]
    assert log.catalog.create_topic("a.b", capture="one") == made
    assert log.catalog.topic("a.b") == made
    assert log.catalog.topics() == [made]
    assert log.catalog.topic("nothing") is None
    again = Log.open(log.data)
    assert again.catalog.topics() == [made]
    again.close()


def test_a_topic_of_another_capture_is_refused(log: Log) -> None:
    log.catalog.create_topic("a.b", capture="one")
    with pytest.raises(TopicExists, match=r"'a\.b' belongs to capture 'one'.*topic\.prefix"):
        log.catalog.create_topic("a.b", capture="two")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ü", "x" * 250, "a\0"])
def test_names_that_kafka_would_not_allow_are_refused(log: Log, name: str) -> None:
    with pytest.raises(ValueError, match="topic name"):
        log.catalog.create_topic(name, capture="one")
    log.catalog.create_topic("x" * 249, capture="one")


def test_a_config_is_replaced_only_where_one_is_given(log: Log) -> None:
    log.catalog.create_topic("a", capture="one", config={"retention.ms": "5"})
    version = log.catalog.topology_version()
    assert log.catalog.create_topic("a", capture="one").config == {"retention.ms": "5"}
    assert log.catalog.topology_version() == version
    assert log.catalog.create_topic("a", capture="one", config={}).config == {}
    assert log.catalog.topology_version() == version + 1


def test_changes_since_gives_what_moved_and_nothing_else(log: Log) -> None:
    rows = [log.catalog.create_topic(f"t{n}", capture="c").partitions[0] for n in range(5)]
    sequence, changes = log.catalog.changes_since(-1)
    assert len(changes) == 5
    assert log.catalog.changes_since(sequence) == (sequence, [])
    epoch = log.catalog.take_over("c").epoch
    log.catalog.commit("c", epoch, "1", [Watermark(rows[n].partition_id, 10 + n, 0, 99) for n in (1, 3)])
    newer, changes = log.catalog.changes_since(sequence)
    assert newer > sequence
    assert changes == [(rows[1].partition_id, 0, 11), (rows[3].partition_id, 0, 13)]
    log.catalog.move_log_start("c", epoch, [(rows[3].partition_id, 5)])
    assert log.catalog.changes_since(newer)[1] == [(rows[3].partition_id, 5, 13)]
    assert log.catalog.capture("c").position == "1"


def test_changes_cost_what_changed_not_what_there_is(log: Log) -> None:
    count = 10_000
    with log.catalog.database.write() as connection:
        for n in range(count):
            topic_id = n.to_bytes(16)
            connection.execute("INSERT INTO topics VALUES (?, ?, 'c', '{}', 1)", (topic_id, f"topic-{n}"))
            connection.execute(
                "INSERT INTO partitions (topic_id, partition_index, leader_epoch, log_start_offset, "
                "high_watermark, segment_base_offset, segment_bytes, change) VALUES (?, 0, 0, 0, 0, 0, 0, 1)",
                (topic_id,),
            )
        connection.execute("UPDATE state SET change_sequence = 1, topology_version = 1")
    plan = log.catalog.database.connection().execute(
        "EXPLAIN QUERY PLAN SELECT partition_id FROM partitions WHERE change > 1 ORDER BY change"
    )
    assert "USING COVERING INDEX partitions_by_change" in str(plan.fetchall())
    began = time.perf_counter()
    for _ in range(100):
        assert log.catalog.changes_since(1) == (1, [])
        assert log.catalog.topics_changed_since(1) == []
    assert time.perf_counter() - began < 0.5
    assert len(log.catalog.topics()) == count
    reader = LogReader(log)
    assert len(reader.topics) == count
    made = log.catalog.create_topic("more", capture="c")
    began = time.perf_counter()
    reader.refresh()
    assert time.perf_counter() - began < 0.05, "one topic more is not a reason to read all of them again"
    assert reader.topics["more"] == made


def test_the_topology_version_grows_when_topics_do(log: Log) -> None:
    before = log.catalog.topology_version()
    log.catalog.create_topic("a", capture="c")
    assert log.catalog.topology_version() > before


def test_there_must_be_a_log(tmp_path: Path) -> None:
    with pytest.raises(NoLog, match="there is no log in"):
        Log.open(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_a_newer_format_is_refused(log: Log) -> None:
    with log.catalog.database.write() as connection:
        connection.execute("UPDATE format SET version = 2")
    for create in (False, True):
        with pytest.raises(NewerFormat, match=r"newer version \(log format 2, this one knows up to 1\)"):
            Log.open(log.data, create=create)


def test_what_is_no_catalog_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "catalog.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(LogError, match=r"catalog\.sqlite cannot be read as a catalog"):
        Log.open(tmp_path)
    with pytest.raises(LogError, match=r"catalog\.sqlite: file is not a database"):
        Log.open(tmp_path, create=True)
    (tmp_path / "catalog.sqlite").unlink()
    sqlite3.connect(tmp_path / "catalog.sqlite").execute("CREATE TABLE other (x)").connection.close()
    with pytest.raises(LogError, match="no catalog of a log"):
        Log.open(tmp_path)


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match=r"cannot use .*file/data"):
        Log.open(tmp_path / "file" / "data", create=True)


def test_status_is_published_beside_the_commits(log: Log) -> None:
    log.catalog.take_over("a/b")
    log.catalog.put_status("a/b", {"phase": "snapshot"})
    log.catalog.put_status("a/b", {"phase": "streaming", "lag_bytes": 3})
    updated_ms, status = log.catalog.statuses()["a/b"]
    assert status == {"phase": "streaming", "lag_bytes": 3}
    assert abs(updated_ms - time.time() * 1000) < 60_000
    assert log.catalog.capture("a/b").state == '{"phase": "streaming", "lag_bytes": 3}'
    (log.data / "status" / "torn.json").write_text('{"upda')
    assert list(log.catalog.statuses()) == ["a/b"]


def test_many_threads_create_and_commit_at_once(log: Log) -> None:
    failures: list[Exception] = []

    def work(name: str) -> None:
        try:
            row = log.catalog.create_topic(name, capture=name).partitions[0]
            epoch = log.catalog.take_over(name).epoch
            for n in range(20):
                log.catalog.commit(name, epoch, str(n), [Watermark(row.partition_id, n, 0, n)])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"c{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert {row.position for row in log.catalog.captures()} == {"19"}
    assert log.catalog.state().change_sequence == 8 * 21
