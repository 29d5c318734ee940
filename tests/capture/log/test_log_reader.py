"""The reader against a plain list of records: any offset, any size, any timestamp, while all else goes on."""

from __future__ import annotations

import gc
import os
import random

import pytest

from capture.log import CorruptLog, FileRange, Log, LogReader, OffsetOutOfRange, Writer
from capture.log.layout import INDEX_SUFFIX, segment_base_offsets, segment_path
from capture.log.mapped_segment import CHUNK_BITS
from protocol.records import batches, check_crc, read_header
from tests.capture.log import logs

SIZES = (1, 500, 2000, 10_000, 1 << 20)


def test_every_offset_and_size_gives_whole_batches_around_it(log: Log) -> None:
    topic = logs.topic(log)
    expected = logs.fill(log, topic, 150, segment_bytes=60_000)
    partition_id = topic.partitions[0].partition_id
    rng = random.Random(8)
    for _ in range(2):
        # A new reader has no hints: every look-up goes through the index.
        partition = LogReader(log).partition(partition_id)
        for offset in rng.sample(range(len(expected)), 200):
            for max_bytes in SIZES:
                view = partition.read(offset, max_bytes)
                assert view is not None
                first = check_crc(view)
                assert first.base_offset <= offset <= first.last_offset
                assert len(view) <= max_bytes or len(view) == first.size_bytes
                ends = [header.last_offset for _, header in batches(view)]
                assert ends == sorted(ends)
        for max_bytes in SIZES:
            assert logs.read_all(partition, max_bytes) == expected
    for start in (0, 1, 77, len(expected) - 1):
        assert logs.read_all(LogReader(log).partition(partition_id), 3000, start) == expected[start:]


def test_a_slice_is_as_large_as_whole_batches_allow(log: Log) -> None:
    topic = logs.topic(log)
    writer = Writer.open(log, logs.CAPTURE)
    partition = writer.partition(topic)
    size = len(logs.batch())
    writer.commit(None, {partition: writer.append(partition, [logs.batch() for _ in range(500)])})
    reader = LogReader(log).partition(partition.partition_id)
    for count in (1, 2, 30, 200, 499):
        for extra in (0, 1, size - 1):
            assert len(reader.read(0, count * size + extra) or b"") == count * size
    writer.close()


def test_offsets_out_of_range_are_refused_and_the_watermark_gives_nothing(log: Log) -> None:
    topic = logs.topic(log)
    reader = LogReader(log)
    empty = reader.partition(topic.partitions[0].partition_id)
    assert empty.read(0, 100) is None
    assert empty.offset_for_timestamp(0) is None
    assert empty.max_timestamp() is None
    expected = logs.fill(log, topic, 5)
    reader.refresh()
    partition = reader.partition(topic.partitions[0].partition_id)
    assert partition.read(len(expected), 100) is None
    for offset in (-1, len(expected) + 1, 2**60):
        with pytest.raises(OffsetOutOfRange) as caught:
            partition.read(offset, 100)
        assert (caught.value.log_start_offset, caught.value.high_watermark) == (0, len(expected))


@pytest.mark.parametrize("segment_bytes", [20_000, 10**9])
def test_timestamps_are_found_as_by_looking_at_every_record(log: Log, segment_bytes: int) -> None:
    topic = logs.topic(log)
    expected = logs.fill(log, topic, 200, segment_bytes=segment_bytes, index_interval_bytes=1000)
    partition = LogReader(log).partition(topic.partitions[0].partition_id)
    times = [record.timestamp for record in expected]
    for timestamp in range(min(times) - 2, max(times) + 3, 7):
        wanted = next(((r.offset, r.timestamp) for r in expected if r.timestamp >= timestamp), None)
        assert partition.offset_for_timestamp(timestamp) == wanted
    assert partition.max_timestamp() == (times.index(max(times)), max(times))


def test_timestamps_that_only_fall_are_found_too(log: Log) -> None:
    topic = logs.topic(log)
    writer = Writer.open(log, logs.CAPTURE, segment_bytes=5000, index_interval_bytes=300)
    partition = writer.partition(topic)
    for n in range(100):
        writer.append(partition, [logs.batch(timestamp=logs.START_MS - 10 * n)])
    writer.commit(None, {partition: 100})
    reader = LogReader(log).partition(partition.partition_id)
    assert reader.max_timestamp() == (0, logs.START_MS)
    assert reader.offset_for_timestamp(logs.START_MS - 500) == (0, logs.START_MS)
    assert reader.offset_for_timestamp(logs.START_MS + 1) is None
    writer.close()


def test_what_is_appended_but_not_committed_is_seen_by_no_look_up(log: Log) -> None:
    topic = logs.topic(log)
    writer = Writer.open(log, logs.CAPTURE, index_interval_bytes=100)
    partition = writer.partition(topic)
    writer.commit(None, {partition: writer.append(partition, [logs.batch() for _ in range(10)])})
    writer.append(partition, [logs.batch(timestamp=logs.START_MS + 50 + n) for n in range(2000)])
    reader = LogReader(log).partition(partition.partition_id)
    assert reader.offset_for_timestamp(logs.START_MS + 1) is None
    assert reader.max_timestamp() == (0, logs.START_MS)
    assert len(logs.read_all(reader)) == 10
    writer.truncate_uncommitted(partition)
    assert len(logs.read_all(reader)) == 10
    writer.close()


def test_a_slice_outlives_growth_truncation_and_the_files_themselves(log: Log) -> None:
    topic = logs.topic(log)
    writer = Writer.open(log, logs.CAPTURE)
    partition = writer.partition(topic)
    reader = LogReader(log)
    held, copies = [], []
    for n in range(50):
        writer.append(partition, [logs.batch(value_bytes=500) for _ in range(5)])
        writer.commit(None, {partition: partition.next_offset})
        writer.append(partition, [logs.batch(value_bytes=3000)])
        if n % 7 == 0:
            writer.truncate_uncommitted(partition)
        writer.commit(None, {partition: partition.next_offset})
        reader.refresh()
        view = reader.partition(partition.partition_id).read(0, 1 << 20)
        assert view is not None
        held.append(view)
        copies.append(bytes(view))
    writer.close()
    for path in logs.folder(log, topic).iterdir():
        path.unlink()
    assert [bytes(view) for view in held] == copies


def test_the_active_segment_is_followed_as_it_grows_and_rolls(log: Log) -> None:
    topic = logs.topic(log)
    writer, reader = Writer.open(log, logs.CAPTURE, segment_bytes=3000), LogReader(log)
    partition = writer.partition(topic)
    seen = reader.partition(partition.partition_id)
    offset = 0
    for _ in range(200):
        writer.commit(None, {partition: writer.append(partition, [logs.batch(value_bytes=100)])})
        reader.refresh()
        view = seen.read(offset, 1000)
        assert view is not None
        assert read_header(view).base_offset == offset
        offset = read_header(view).last_offset + 1
        assert seen.read(offset, 1000) is None
    writer.close()


def test_descriptors_stay_bounded_however_many_segments_there_are(log: Log) -> None:
    topics = [logs.topic(log, f"t{n}") for n in range(10)]
    for topic in topics:
        logs.fill(log, topic, 60, segment_bytes=3000)
    assert sum(len(segment_base_offsets(logs.folder(log, topic))) for topic in topics) > 300
    reader = LogReader(log, max_mapped_segments=20)
    before = len(os.listdir("/proc/self/fd"))
    rng = random.Random(2)
    partitions = [reader.partition(topic.partitions[0].partition_id) for topic in topics]
    for _ in range(600):
        partition = rng.choice(partitions)
        assert partition.read(rng.randrange(partition.high_watermark), 1000) is not None
        assert partition.offset_for_timestamp(logs.START_MS) is not None
    assert len(os.listdir("/proc/self/fd")) - before <= 40


def test_resident_pages_stay_bounded_and_slices_stay_right(log: Log) -> None:
    topic = logs.topic(log)
    writer = Writer.open(log, logs.CAPTURE)
    partition = writer.partition(topic)
    made = [logs.batch(value_bytes=100_000) for _ in range(400)]
    writer.commit(None, {partition: writer.append(partition, made)})
    writer.close()

    def resident() -> int:
        gc.collect()
        with open("/proc/self/smaps") as maps:
            lines = iter(maps)
            for line in lines:
                if topic.name in line:
                    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:")) * 1024
        return 0

    reader = LogReader(log, max_resident_bytes=8 << 20).partition(partition.partition_id)
    first = reader.read(0, 100_000)
    assert first is not None
    copy = bytes(first)
    assert len(logs.read_all(reader, 1 << 20)) == 400
    assert resident() <= (8 << 20) + (2 << CHUNK_BITS)
    assert bytes(first) == copy


def test_segments_deleted_under_a_reader_are_out_of_range(log: Log) -> None:
    topic = logs.topic(log)
    expected = logs.fill(log, topic, 60, segment_bytes=5000)
    partition_id = topic.partitions[0].partition_id
    mapped, unmapped, stale = (LogReader(log) for _ in range(3))
    held = mapped.partition(partition_id).read(0, 1 << 20)
    assert held is not None
    copy = bytes(held)
    stale.partition(partition_id).read(len(expected) - 1, 100)  # has listed the folder
    bases = segment_base_offsets(logs.folder(log, topic))
    start = bases[3]
    log.catalog.move_log_start(logs.CAPTURE, log.catalog.capture(logs.CAPTURE).epoch, [(partition_id, start)])
    for base in bases[:3]:
        for suffix in (".log", ".index", ".timeindex"):
            segment_path(logs.folder(log, topic), base, suffix).unlink()
    for reader in (unmapped, stale):
        # Before any refresh of its own.
        with pytest.raises(OffsetOutOfRange) as caught:
            reader.partition(partition_id).read(0, 1000)
        assert caught.value.log_start_offset == start
        assert reader.refresh() == {partition_id}
    assert mapped.refresh() == {partition_id}
    assert bytes(held) == copy
    for reader in (mapped, unmapped, stale):
        partition = reader.partition(partition_id)
        assert logs.read_all(partition) == expected[start:]
        assert partition.offset_for_timestamp(0) == (start, expected[start].timestamp)
        latest = max(expected[start:], key=lambda record: record.timestamp)
        assert partition.max_timestamp() == (latest.offset, latest.timestamp)


def test_a_deleted_file_that_retention_did_not_delete_is_damage(log: Log) -> None:
    topic = logs.topic(log)
    logs.fill(log, topic, 30, segment_bytes=5000)
    partition = LogReader(log).partition(topic.partitions[0].partition_id)
    segment_path(logs.folder(log, topic), 0).unlink()
    for look in (lambda: partition.read(0, 100), lambda: partition.max_timestamp()):
        with pytest.raises(CorruptLog, match="is gone"):
            look()


@pytest.mark.parametrize("active", [True, False])
def test_a_damaged_index_misleads_nobody(log: Log, active: bool) -> None:
    topic = logs.topic(log)
    expected = logs.fill(log, topic, 400, segment_bytes=10**9 if active else 200_000)
    path = segment_path(logs.folder(log, topic), 0, INDEX_SUFFIX)
    rng = random.Random(9)
    good = path.read_bytes()
    for _ in range(10):
        damaged = bytearray(good)
        for _ in range(30):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        partition = LogReader(log).partition(topic.partitions[0].partition_id)
        for offset in rng.sample(range(len(expected)), 50):
            view = partition.read(offset, rng.choice(SIZES))
            assert view is not None
            found = list(batches(view))
            assert found[0][1].base_offset <= offset <= found[0][1].last_offset
    path.unlink()
    assert logs.read_all(LogReader(log).partition(topic.partitions[0].partition_id)) == expected


def test_damage_that_is_met_is_an_error_and_no_crash(log: Log) -> None:
    topic = logs.topic(log)
    expected = logs.fill(log, topic, 100)
    path = segment_path(logs.folder(log, topic), 0)
    good, rng = path.read_bytes(), random.Random(10)
    for _ in range(60):
        damaged = bytearray(good)
        for _ in range(200):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        partition = LogReader(log).partition(topic.partitions[0].partition_id)
        for _ in range(20):
            try:
                partition.read(rng.randrange(len(expected)), rng.choice(SIZES))
                partition.offset_for_timestamp(logs.START_MS + rng.randrange(2000))
                partition.max_timestamp()
            except CorruptLog as error:
                assert error.path == path  # noqa: PT017 - most reads succeed
    path.write_bytes(good[: len(good) // 2])
    partition = LogReader(log).partition(topic.partitions[0].partition_id)
    with pytest.raises(CorruptLog, match="the file ends there"):
        partition.read(len(expected) - 1, 100)


def test_a_range_of_a_file_is_what_the_slice_is(log: Log) -> None:
    topic = logs.topic(log)
    writer = Writer.open(log, logs.CAPTURE, segment_bytes=600_000)
    partition = writer.partition(topic)
    made = [logs.batch(value_bytes=50_000) for _ in range(20)]
    writer.commit(None, {partition: writer.append(partition, made)})
    reader = LogReader(log).partition(partition.partition_id)
    for offset in (0, 3, 13):
        for max_bytes in (1000, 200_000, 10**7):
            view, given = reader.read(offset, max_bytes), reader.read_to_send(offset, max_bytes)
            assert view is not None
            if isinstance(given, FileRange):
                assert os.pread(given.file.descriptor, len(given), given.position) == view
            else:
                assert given == view
                assert len(view) < 200_000
    assert reader.read_to_send(20, 1000) is None
    writer.close()


def test_ranges_follow_one_another_through_batches_of_all_sizes(log: Log) -> None:
    """What a range leaves out begins the next one, whichever way each is found."""
    topic = logs.topic(log)
    writer = Writer.open(log, logs.CAPTURE, segment_bytes=3_000_000)
    partition = writer.partition(topic)
    sizes = [50_000, 100, 300, 2_000_000, 100, 100, 200_000, 60_000, 4_000, 5_000, 130_000, 10, 700_000, 100]
    made = [logs.batch(value_bytes=size) for size in sizes * 3]
    writer.append(partition, made)  # which stamps them in place
    expected = b"".join(made)
    writer.commit(None, {partition: partition.next_offset})
    reader = LogReader(log).partition(partition.partition_id)
    for max_bytes in (1, 130_000, 131_072, 200_000, 500_000, 10**7):
        for _ in range(2):
            offset, found = 0, b""
            while (given := reader.read_to_send(offset, max_bytes)) is not None:
                view = given.view if isinstance(given, FileRange) else given
                if isinstance(given, FileRange):
                    assert os.pread(given.file.descriptor, len(given), given.position) == view
                    assert len(given) >= 128 * 1024, "a small one must be memory, for the encoder joins it"
                found += view
                headers = [header for _, header in batches(view)]
                assert len(view) <= max_bytes or len(headers) == 1
                offset = headers[-1].base_offset + headers[-1].last_offset_delta + 1
            assert found == expected
    writer.close()


def test_readers_see_new_topics_and_forget_none(log: Log) -> None:
    reader = LogReader(log)
    assert dict(reader.topics) == {}
    topic = logs.topic(log)
    reader.refresh()
    assert reader.topics[topic.name].topic_id == topic.topic_id
    assert reader.topics_by_id[topic.topic_id].name == topic.name
    assert reader.partition(topic.partitions[0].partition_id).topic_id == topic.topic_id
    before = reader.partition(topic.partitions[0].partition_id)
    logs.topic(log, "another")
    reader.refresh()
    assert reader.partition(topic.partitions[0].partition_id) is before
    with pytest.raises(KeyError):
        reader.partition(99)
