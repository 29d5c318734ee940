"""Retention: whole segments go from the front, readers are told first, what is left stays right."""

from __future__ import annotations

import os

import pytest

from capture.log import Fenced, Log, LogReader, OffsetOutOfRange, Writer
from capture.log.layout import segment_base_offsets
from capture.log.retention import Expired, enforce
from tests.capture.log import logs

HOUR_MS = 3_600_000


def hourly(log: Log, writer: Writer, name: str, count: int, **config: str):
    """A partition with one batch of four records an hour, two batches to a segment."""
    size = len(logs.batch(4))
    partition = writer.partition(logs.topic(log, name, segment_bytes=str(2 * size), **config))
    for n in range(count):
        made = logs.batch(4, timestamp=logs.START_MS + n * HOUR_MS)
        writer.commit(str(n), {partition: writer.append(partition, [made])})
    return partition


@pytest.fixture
def writer(log: Log):
    opened = Writer.open(log, logs.CAPTURE)
    yield opened
    opened.close()


def test_without_options_everything_is_kept(log: Log, writer: Writer) -> None:
    partition = hourly(log, writer, "t", 10)
    assert enforce(writer, logs.START_MS + 10**12) == []
    assert len(logs.read_all(LogReader(log).partition(partition.partition_id))) == 40


def test_segments_whose_newest_record_is_too_old_go(log: Log, writer: Writer) -> None:
    partition = hourly(log, writer, "t", 10, retention_ms=str(5 * HOUR_MS))
    kept = hourly(log, writer, "kept", 10)
    reader = LogReader(log)
    seen = reader.partition(partition.partition_id)
    held = seen.read(0, 100)
    copy = bytes(held or b"")
    # Segments hold hours 0-1, 2-3, 4-5, 6-7, 8-9; at hour 9.5 the records of hours 0 to 4 are too old.
    now_ms = logs.START_MS + 9 * HOUR_MS + HOUR_MS // 2
    assert enforce(writer, now_ms) == [Expired("t", 0, 16, 2)]
    assert segment_base_offsets(partition.folder) == [16, 24, 32]
    assert sorted(path.suffix for path in partition.folder.iterdir()) == 3 * [".index"] + 3 * [".log"] + 3 * [
        ".timeindex"
    ]
    assert bytes(held or b"") == copy
    reader.refresh()
    with pytest.raises(OffsetOutOfRange) as caught:
        seen.read(15, 100)
    assert (caught.value.log_start_offset, seen.log_start_offset, seen.high_watermark) == (16, 16, 40)
    assert [record.offset for record in logs.read_all(seen)] == list(range(16, 40))
    assert seen.offset_for_timestamp(0) == (16, logs.START_MS + 4 * HOUR_MS)
    assert enforce(writer, now_ms) == []
    assert kept.log_start_offset == 0


def test_no_more_goes_by_size_than_leaves_what_was_asked_for(log: Log, writer: Writer) -> None:
    size = len(logs.batch(4))
    partition = hourly(log, writer, "t", 10, retention_bytes=str(5 * size))
    assert enforce(writer, 0) == [Expired("t", 0, 16, 2)]
    assert sum(path.stat().st_size for path in partition.folder.glob("*.log")) == 6 * size
    writer.commit(None, {partition: writer.append(partition, [logs.batch(4), logs.batch(4)])})
    assert enforce(writer, 0) == [Expired("t", 0, 24, 1)]


def test_a_partition_whose_records_are_all_too_old_is_emptied_and_goes_on(log: Log, writer: Writer) -> None:
    partition = hourly(log, writer, "t", 9, retention_ms=str(HOUR_MS))
    reader = LogReader(log)
    seen = reader.partition(partition.partition_id)
    logs.read_all(seen)
    now_ms = logs.START_MS + 100 * HOUR_MS
    assert enforce(writer, now_ms) == [Expired("t", 0, 36, 5)]
    assert segment_base_offsets(partition.folder) == [36]
    reader.refresh()
    assert (seen.log_start_offset, seen.high_watermark, seen.read(36, 100)) == (36, 36, None)
    assert seen.max_timestamp() is None
    assert enforce(writer, now_ms) == []
    writer.close()
    with Opened(log) as again:
        partition = again.partition(log.catalog.topic("t"))
        assert (partition.next_offset, partition.log_start_offset) == (36, 36)
        again.commit(None, {partition: again.append(partition, [logs.batch(4)])})
    reader.refresh()
    assert [record.offset for record in logs.read_all(seen)] == [36, 37, 38, 39]


def test_what_is_not_committed_keeps_its_segment(log: Log, writer: Writer) -> None:
    partition = hourly(log, writer, "t", 2, retention_ms=str(HOUR_MS))
    end = writer.append(partition, [logs.batch(4)])
    assert enforce(writer, logs.START_MS + 100 * HOUR_MS) == []
    writer.commit(None, {partition: end})
    assert enforce(writer, logs.START_MS + 100 * HOUR_MS) == [Expired("t", 0, 12, 2)]


def test_a_crash_before_the_files_are_deleted_is_made_up_for(
    log: Log, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = hourly(log, writer, "t", 10, retention_ms=str(5 * HOUR_MS))
    now_ms = logs.START_MS + 9 * HOUR_MS + HOUR_MS // 2
    with monkeypatch.context() as patch:
        patch.setattr("capture.log.retention._delete_invisible", lambda _: None)
        assert enforce(writer, now_ms) == []
    assert segment_base_offsets(partition.folder) == [0, 8, 16, 24, 32]
    seen = LogReader(log).partition(partition.partition_id)
    assert [record.offset for record in logs.read_all(seen)] == list(range(16, 40))
    writer.close()
    with Opened(log) as again:
        again.partition(log.catalog.topic("t"))
        enforce(again, now_ms)
    assert segment_base_offsets(partition.folder) == [16, 24, 32]


def test_a_config_changed_later_is_taken_over(log: Log, writer: Writer) -> None:
    hourly(log, writer, "t", 10)
    changed = log.catalog.create_topic("t", capture=logs.CAPTURE, config={"retention.ms": str(5 * HOUR_MS)})
    writer.partition(changed)
    assert enforce(writer, logs.START_MS + 10 * HOUR_MS) == [Expired("t", 0, 16, 2)]


def test_partitions_that_expire_together_leave_no_files_open(log: Log, writer: Writer) -> None:
    for n in range(40):
        hourly(log, writer, f"t{n}", 1, retention_ms=str(HOUR_MS))
    writer.close()
    with Opened(log) as again:
        for topic in log.catalog.topics():
            again.partition(topic)
        before = len(os.listdir("/proc/self/fd"))
        assert len(enforce(again, logs.START_MS + 10 * HOUR_MS)) == 40
        assert len(os.listdir("/proc/self/fd")) <= before + 3


def test_a_fenced_writer_deletes_nothing(log: Log, writer: Writer) -> None:
    partition = hourly(log, writer, "t", 10, retention_ms="1")
    log.catalog.take_over(logs.CAPTURE)
    with pytest.raises(Fenced):
        enforce(writer, logs.START_MS + 100 * HOUR_MS)
    assert segment_base_offsets(partition.folder)[:5] == [0, 8, 16, 24, 32]


class Opened:
    """A writer for a block."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def __enter__(self) -> Writer:
        self._writer = Writer.open(self._log, logs.CAPTURE)
        return self._writer

    def __exit__(self, *_: object) -> None:
        self._writer.close()
