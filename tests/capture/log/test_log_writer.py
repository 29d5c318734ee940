"""The writer: nothing is visible before its commit, all of it after; one writer at a time."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Sequence

import pytest

from capture.log import Fenced, LeaseHeld, Listener, Log, LogError, LogFull, LogReader, Writer
from capture.log.layout import segment_base_offsets
from protocol.records import DecodeError, records
from tests.capture.log import logs


def test_what_is_appended_is_visible_once_it_is_committed(log: Log) -> None:
    topic = logs.topic(log)
    writer, reader, listener = Writer.open(log, logs.CAPTURE), LogReader(log), Listener(log.data)
    partition = writer.partition(topic)
    seen = reader.partition(partition.partition_id)
    assert (partition.next_offset, partition.high_watermark, writer.position) == (0, 0, None)
    assert writer.append(partition, [logs.batch(3), bytes(logs.batch(2))]) == 5
    assert reader.refresh() == set()
    assert not listener.drain()
    assert seen.read(0, 100) is None
    writer.commit('{"lsn": 7}', {partition: 5})
    assert listener.drain()
    assert seen.high_watermark == 0
    assert reader.refresh() == {partition.partition_id}
    assert (seen.high_watermark, partition.high_watermark) == (5, 5)
    assert [record.offset for record in logs.read_all(seen)] == [0, 1, 2, 3, 4]
    assert writer.position == log.catalog.capture(logs.CAPTURE).position == '{"lsn": 7}'
    writer.commit(None, {partition: writer.append(partition, [logs.batch()])})
    assert log.catalog.capture(logs.CAPTURE).position == '{"lsn": 7}'
    writer.close()
    listener.close()


def test_a_commit_is_seen_in_all_its_topics_at_once(log: Log) -> None:
    writer, reader = Writer.open(log, logs.CAPTURE), LogReader(log)
    partitions = [writer.partition(logs.topic(log, f"t{n}")) for n in range(20)]
    for n in range(5):
        writer.commit(
            str(n), {partition: writer.append(partition, [logs.batch(2)]) for partition in partitions}
        )
        reader.refresh()
        marks = {reader.partition(partition.partition_id).high_watermark for partition in partitions}
        assert marks == {2 * n + 2}
    writer.close()


def test_a_watermark_may_be_the_end_of_any_batch(log: Log) -> None:
    writer = Writer.open(log, logs.CAPTURE, segment_bytes=300)
    partition = writer.partition(logs.topic(log))
    assert writer.append(partition, [logs.batch(2) for _ in range(10)]) == 20
    writer.commit("a", {partition: 6})
    for wrong in (7, 5, 21):
        with pytest.raises(ValueError, match=f"no batch ends at offset {wrong}"):
            writer.commit("b", {partition: wrong})
    writer.commit("b", {partition: 6})
    writer.commit("c", {partition: 20})
    reader = LogReader(log)
    assert len(logs.read_all(reader.partition(partition.partition_id))) == 20
    writer.close()


def test_uncommitted_batches_are_dropped_on_demand(log: Log) -> None:
    writer = Writer.open(log, logs.CAPTURE, segment_bytes=500)
    topic = logs.topic(log)
    partition = writer.partition(topic)
    writer.append(partition, [logs.batch(5)])
    writer.truncate_uncommitted(partition)
    assert (partition.next_offset, segment_base_offsets(logs.folder(log, topic))) == (0, [])
    writer.commit("a", {partition: writer.append(partition, [logs.batch(3, value_bytes=7)])})
    for _ in range(10):
        writer.append(partition, [logs.batch(5)])
    writer.truncate_uncommitted(partition)
    assert (partition.next_offset, segment_base_offsets(logs.folder(log, topic))) == (3, [0])
    writer.commit("b", {partition: writer.append(partition, [logs.batch(1, value_bytes=9)])})
    found = logs.read_all(LogReader(log).partition(partition.partition_id))
    assert [len(record.value or b"") for record in found] == [7, 7, 7, 9]
    writer.close()


def test_a_capture_has_one_writer_on_a_host(log: Log) -> None:
    writer = Writer.open(log, "a/b: c")
    with pytest.raises(LeaseHeld, match=rf"'a/b: c'.*pid {os.getpid()}") as caught:
        Writer.open(log, "a/b: c")
    assert caught.value.retry_may_help
    other = Writer.open(log, "another")
    other.close()
    writer.close()
    writer.close()
    with pytest.raises(LogError, match="is closed"):
        writer.commit(None, {})
    again = Writer.open(log, "a/b: c")
    assert again.epoch == 2
    again.close()


def test_a_writer_of_an_older_epoch_is_refused_and_changes_nothing(log: Log) -> None:
    topic = logs.topic(log)
    writer = Writer.open(log, logs.CAPTURE)
    partition = writer.partition(topic)
    writer.commit("a", {partition: writer.append(partition, [logs.batch()])})
    log.catalog.take_over(logs.CAPTURE)  # as a writer of another host does
    end = writer.append(partition, [logs.batch()])
    with pytest.raises(Fenced, match="taken over"):
        writer.commit("b", {partition: end})
    assert log.catalog.capture(logs.CAPTURE).position == "a"
    assert log.catalog.topic(topic.name).partitions[0].high_watermark == 1
    with pytest.raises(LogError, match="failed before"):
        writer.append(partition, [logs.batch()])
    writer.close()


def test_a_topic_of_another_capture_cannot_be_written(log: Log) -> None:
    topic = log.catalog.create_topic("t", capture="other")
    writer = Writer.open(log, logs.CAPTURE)
    with pytest.raises(LogError, match="belongs to capture 'other'"):
        writer.partition(topic)
    writer.close()


def test_only_whole_batches_are_appended(log: Log) -> None:
    writer = Writer.open(log, logs.CAPTURE)
    partition = writer.partition(logs.topic(log))
    with pytest.raises(ValueError, match="whole batches"):
        writer.append(partition, [logs.batch() + logs.batch()])
    with pytest.raises(DecodeError):
        writer.append(partition, [b"no batch"])
    assert writer.append(partition, []) == 0
    assert writer.append(partition, [logs.batch()]) == 1
    writer.close()


def test_segments_are_rolled_by_size_and_by_time(log: Log) -> None:
    by_size = logs.topic(log, "by_size", segment_bytes="1000")
    by_time = logs.topic(log, "by_time", segment_ms="100")
    writer = Writer.open(log, logs.CAPTURE)
    for topic in (by_size, by_time):
        partition = writer.partition(topic)
        for n in range(12):
            writer.append(partition, [logs.batch(4, timestamp=logs.START_MS + 40 * n)])
        writer.commit(None, {partition: partition.next_offset})
    size = len(logs.batch(4))
    assert segment_base_offsets(logs.folder(log, by_size)) == [4 * n for n in range(0, 12, 1000 // size)]
    # A batch more than 100 ms after its segment's first one begins the next segment.
    assert segment_base_offsets(logs.folder(log, by_time)) == [0, 12, 24, 36]
    writer.close()


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(log: Log) -> None:
    topic = logs.topic(log, segment_bytes="500")
    writer = Writer.open(log, logs.CAPTURE)
    partition = writer.partition(topic)
    writer.commit(None, {partition: writer.append(partition, [logs.batch(), logs.batch(value_bytes=2000)])})
    writer.commit(None, {partition: writer.append(partition, [logs.batch()])})
    assert segment_base_offsets(logs.folder(log, topic)) == [0, 1, 2]
    assert len(logs.read_all(LogReader(log).partition(partition.partition_id), 100)) == 3
    writer.close()


def test_offsets_of_a_segment_fit_its_index(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capture.log.partition_writer.MAX_RELATIVE_OFFSET", 9)
    topic = logs.topic(log)
    writer = Writer.open(log, logs.CAPTURE)
    partition = writer.partition(topic)
    writer.commit(None, {partition: writer.append(partition, [logs.batch(4) for _ in range(6)])})
    assert segment_base_offsets(logs.folder(log, topic)) == [0, 8, 16]
    writer.close()


def test_one_thread_appends_while_another_commits(log: Log) -> None:
    topics = [logs.topic(log, f"t{n}") for n in range(3)]
    writer = Writer.open(log, logs.CAPTURE, segment_bytes=3000)
    partitions = [writer.partition(topic) for topic in topics]
    rng, expected = random.Random(3), {partition: [] for partition in partitions}
    appended: dict = {}
    turn, finished = threading.Condition(), threading.Event()
    failures: list[Exception] = []

    def commit() -> None:
        try:
            while not finished.is_set() or appended:
                with turn:
                    turn.wait_for(lambda: appended or finished.is_set())
                    now = dict(appended)
                    appended.clear()
                if now:
                    writer.commit(str(sum(now.values())), now)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=commit)
    thread.start()
    for _ in range(400):
        partition = rng.choice(partitions)
        made = [logs.random_batch(rng) for _ in range(rng.randrange(1, 4))]
        for one in made:
            expected[partition] += [record.value for record in records(one)]
        end = writer.append(partition, made)
        with turn:
            appended[partition] = end
            turn.notify()
    with turn:
        finished.set()
        turn.notify()
    thread.join()
    assert failures == []
    reader = LogReader(log)
    for partition in partitions:
        found = logs.read_all(reader.partition(partition.partition_id), 2000)
        assert [record.value for record in found] == expected[partition]
        assert [record.offset for record in found] == list(range(partition.next_offset))
    writer.close()


def test_many_partitions_need_few_descriptors(log: Log) -> None:
    topics = [logs.topic(log, f"t{n}") for n in range(60)]
    writer = Writer.open(log, logs.CAPTURE, max_open_segments=5)
    partitions = [writer.partition(topic) for topic in topics]
    before = len(os.listdir("/proc/self/fd"))
    for n in range(3):
        for partition in partitions:
            writer.commit(str(n), {partition: writer.append(partition, [logs.batch()])})
    assert len(os.listdir("/proc/self/fd")) <= before + 6 * 3
    reader = LogReader(log)
    assert all(len(logs.read_all(reader.partition(partition.partition_id))) == 3 for partition in partitions)
    writer.close()


def test_one_transaction_over_many_partitions_needs_few_descriptors(log: Log) -> None:
    topics = [logs.topic(log, f"t{n}") for n in range(60)]
    writer = Writer.open(log, logs.CAPTURE, max_open_segments=5)
    partitions = [writer.partition(topic) for topic in topics]
    before = len(os.listdir("/proc/self/fd"))
    ends = {}
    for _ in range(2):
        for partition in partitions:
            ends[partition] = writer.append(partition, [logs.batch()])
            assert len(os.listdir("/proc/self/fd")) <= before + 6 * 3
    writer.commit("all", ends)
    reader = LogReader(log)
    assert all(len(logs.read_all(reader.partition(partition.partition_id))) == 2 for partition in partitions)
    writer.close()


def test_short_writes_are_continued(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    write, rng = os.pwritev, random.Random(4)

    def some(file: int, pieces: Sequence[bytes], position: int) -> int:
        joined = b"".join(pieces)
        return write(file, [joined[: rng.randrange(1, len(joined) + 1)]], position)

    monkeypatch.setattr(os, "pwritev", some)
    topic = logs.topic(log)
    expected = logs.fill(log, topic, 60, segment_bytes=4000, index_interval_bytes=100)
    assert logs.read_all(LogReader(log).partition(topic.partitions[0].partition_id)) == expected


def test_more_batches_than_one_write_takes(log: Log) -> None:
    writer = Writer.open(log, logs.CAPTURE)
    partition = writer.partition(logs.topic(log))
    writer.commit(None, {partition: writer.append(partition, [logs.batch() for _ in range(2500)])})
    assert len(logs.read_all(LogReader(log).partition(partition.partition_id))) == 2500
    writer.close()


@pytest.mark.parametrize("call", ["pwritev", "fdatasync", "fsync"])
def test_an_error_of_the_disk_stops_the_writer_and_harms_nothing(
    log: Log, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    topic = logs.topic(log)
    writer = Writer.open(log, logs.CAPTURE)
    partition = writer.partition(topic)
    if call != "fsync":
        writer.commit("a", {partition: writer.append(partition, [logs.batch()])})

    def fail(*_: object) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(LogError, match="nput/output error") as caught:
            writer.commit("b", {partition: writer.append(partition, [logs.batch()])})
        assert not isinstance(caught.value, LogFull)
    with pytest.raises(LogError, match="failed before"):
        writer.commit("b", {})
    writer.close()
    again = Writer.open(log, logs.CAPTURE)
    partition = again.partition(topic)
    assert (again.position, partition.next_offset) == (("a", 1) if call != "fsync" else (None, 0))
    again.commit("c", {partition: again.append(partition, [logs.batch()])})
    assert len(logs.read_all(LogReader(log).partition(partition.partition_id))) == partition.next_offset
    again.close()
