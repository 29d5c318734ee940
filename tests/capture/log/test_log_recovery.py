"""Opening after a kill or damage: garbage is cut, indexes are mended, committed bytes are never touched."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from capture.log import CorruptLog, Log, LogReader, Topic, Writer
from capture.log.layout import INDEX_SUFFIX, TIME_INDEX_SUFFIX, segment_base_offsets, segment_path
from protocol.records import Record
from tests.capture.log import logs

OPTIONS = {"segment_bytes": 30_000, "index_interval_bytes": 1000}


@pytest.fixture
def topic(log: Log) -> Topic:
    """A topic with some segments, and garbage of a killed writer after its high watermark."""
    return logs.topic(log)


@pytest.fixture
def expected(log: Log, topic: Topic) -> list[Record]:
    return logs.fill(log, topic, 120, **OPTIONS)


def reopen(log: Log) -> None:
    Writer.open(log, logs.CAPTURE, **OPTIONS).close()


def active(log: Log, topic: Topic) -> Path:
    row = log.catalog.topic(topic.name).partitions[0]
    return segment_path(logs.folder(log, topic), row.segment_base_offset)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def found(log: Log, topic: Topic) -> list[Record]:
    return logs.read_all(LogReader(log).partition(topic.partitions[0].partition_id))


@pytest.mark.parametrize("committed", [0, 1, 40])
@pytest.mark.parametrize("uncommitted", [1, 100])
def test_what_was_not_committed_is_cut_as_if_it_never_was(log: Log, committed: int, uncommitted: int) -> None:
    plain, killed = logs.topic(log, "plain"), logs.topic(log, "killed")
    expected = logs.fill(log, plain, committed, **OPTIONS)
    assert logs.fill(log, killed, committed, **OPTIONS) == expected
    writer = Writer.open(log, logs.CAPTURE, **OPTIONS)
    rng = random.Random(7)
    for _ in range(uncommitted):
        writer.append(writer.partition(killed), [logs.random_batch(rng, timestamp=logs.START_MS + 10**6)])
    writer.close()
    before = contents(logs.folder(log, killed))
    reopen(log)
    after = contents(logs.folder(log, killed)) if committed else {}
    assert sum(map(len, after.values())) < sum(map(len, before.values()))
    if committed:
        # Byte for byte what the log without the killed writer's garbage holds, indexes too.
        assert after == contents(logs.folder(log, plain))
    assert logs.fill(log, killed, 30, seed=9, **OPTIONS) == [
        record._replace(offset=record.offset) for record in logs.fill(log, plain, 30, seed=9, **OPTIONS)
    ]
    if committed:
        assert contents(logs.folder(log, killed)) == contents(logs.folder(log, plain))
    assert found(log, killed) == found(log, plain)
    assert found(log, killed)[: len(expected)] == expected


@pytest.mark.parametrize("tail", ["torn", "flipped", "zeros"])
def test_a_bad_tail_past_the_watermark_is_cut(
    log: Log, topic: Topic, expected: list[Record], tail: str
) -> None:
    good = contents(logs.folder(log, topic))
    garbage = {
        "torn": bytes(logs.batch(9)[:-5]),
        "flipped": bytes(logs.batch(9)[:-1]) + b"?",
        "zeros": bytes(5000),
    }
    with active(log, topic).open("ab") as file:
        file.write(garbage[tail])
    for suffix, entry in ((INDEX_SUFFIX, 8), (TIME_INDEX_SUFFIX, 12)):
        with active(log, topic).with_suffix(suffix).open("ab") as file:
            file.write(b"\x7f" * entry + b"\0" * entry + b"xyz")
    reopen(log)
    assert contents(logs.folder(log, topic)) == good
    assert found(log, topic) == expected


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
@pytest.mark.parametrize("damage", ["missing", "empty", "short", "odd", "zeroed end", "random"])
def test_indexes_of_the_active_segment_are_mended(log: Log, topic: Topic, suffix: str, damage: str) -> None:
    expected = logs.fill(log, topic, 300, segment_bytes=10**9, index_interval_bytes=1000)
    good = contents(logs.folder(log, topic))
    path = active(log, topic).with_suffix(suffix)
    whole = path.read_bytes()
    entry = 8 if suffix == INDEX_SUFFIX else 12
    half = len(whole) // entry // 2 * entry
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {
                "empty": b"",
                "short": whole[:half],
                "odd": whole[:-3],
                "zeroed end": whole[:half] + bytes(len(whole) - half),
                "random": whole[:half] + random.Random(1).randbytes(len(whole) - half),
            }[damage]
        )
    Writer.open(log, logs.CAPTURE, segment_bytes=10**9, index_interval_bytes=1000).close()
    assert contents(logs.folder(log, topic)) == good
    assert found(log, topic) == expected


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
@pytest.mark.parametrize("damage", ["missing", "empty", "odd"])
def test_indexes_of_sealed_segments_are_mended(
    log: Log, topic: Topic, expected: list[Record], suffix: str, damage: str
) -> None:
    good = contents(logs.folder(log, topic))
    for base_offset in segment_base_offsets(logs.folder(log, topic))[:2]:
        path = segment_path(logs.folder(log, topic), base_offset, suffix)
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(b"" if damage == "empty" else path.read_bytes()[:-1])
    reopen(log)
    assert contents(logs.folder(log, topic)) == good
    assert found(log, topic) == expected


def test_an_index_mended_under_a_reader_leaves_its_mapping_alone(
    log: Log, topic: Topic, expected: list[Record]
) -> None:
    path = segment_path(logs.folder(log, topic), 0, INDEX_SUFFIX)
    path.write_bytes(path.read_bytes() + b"\0" * 100_003)
    reader = LogReader(log).partition(topic.partitions[0].partition_id)
    assert reader.read(5, 1) is not None  # maps the index with its odd end
    reopen(log)
    assert path.stat().st_size < 10_000
    assert logs.read_all(reader, 500) == expected


def test_committed_bytes_that_are_gone_are_an_error_that_names_them(
    log: Log, topic: Topic, expected: list[Record]
) -> None:
    path = active(log, topic)
    size = path.stat().st_size
    os.truncate(path, size - 10)
    with pytest.raises(
        CorruptLog, match=rf"{path} is damaged at byte {size - 10}: the file ends there, {size} "
    ):
        reopen(log)
    assert path.stat().st_size == size - 10
    path.unlink()
    with pytest.raises(CorruptLog, match=r"\.log is damaged at byte 0: the file is gone.*Restore the file"):
        reopen(log)


def test_a_flipped_bit_in_the_committed_tail_is_an_error_that_names_it(
    log: Log, topic: Topic, expected: list[Record]
) -> None:
    path = active(log, topic)
    good = path.read_bytes()
    for position in (len(good) - 1, len(good) - 200):
        damaged = bytearray(good)
        damaged[position] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(CorruptLog) as caught:
            reopen(log)
        assert caught.value.path == path
        assert caught.value.position <= position
        assert path.read_bytes() == damaged, "nothing is cut"
    path.write_bytes(good)
    reopen(log)
    assert found(log, topic) == expected


def test_damage_anywhere_is_found_when_an_index_is_made_anew(
    log: Log, topic: Topic, expected: list[Record]
) -> None:
    for base_offset in segment_base_offsets(logs.folder(log, topic)):
        path = segment_path(logs.folder(log, topic), base_offset)
        good, index = path.read_bytes(), path.with_suffix(INDEX_SUFFIX).read_bytes()
        path.with_suffix(INDEX_SUFFIX).unlink()
        damaged = bytearray(good)
        damaged[len(good) // 2] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(CorruptLog) as caught:
            reopen(log)
        assert caught.value.path == path
        path.write_bytes(good)
        path.with_suffix(INDEX_SUFFIX).write_bytes(index)
    reopen(log)
    assert found(log, topic) == expected


def test_a_catalog_older_than_the_files_keeps_what_it_knows(tmp_path: Path) -> None:
    """A data directory restored from a copy taken while it was written: the catalog first, then the files."""
    log = Log.open(tmp_path / "data", create=True)
    topic = logs.topic(log)
    expected = logs.fill(log, topic, 30, **OPTIONS)
    log.close()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    log = Log.open(tmp_path / "data")
    logs.fill(log, topic, 60, seed=2, **OPTIONS)
    log.close()
    shutil.rmtree(tmp_path / "copy" / "topics")
    shutil.copytree(tmp_path / "data" / "topics", tmp_path / "copy" / "topics")
    copy = Log.open(tmp_path / "copy")
    reopen(copy)
    assert found(copy, topic) == expected
    logs.fill(copy, topic, 60, seed=3, **OPTIONS)
    assert found(copy, topic)[: len(expected)] == expected
    copy.close()


def test_random_garbage_after_the_watermark_never_gets_in(
    log: Log, topic: Topic, expected: list[Record]
) -> None:
    rng = random.Random(11)
    good = contents(logs.folder(log, topic))
    for _ in range(25):
        for suffix in (".log", INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            with active(log, topic).with_suffix(suffix).open("ab") as file:
                file.write(rng.randbytes(rng.randrange(400)))
        if rng.random() < 0.5:
            stray = len(expected) + rng.randrange(0, 9)
            segment_path(logs.folder(log, topic), stray).write_bytes(rng.randbytes(50))
        reopen(log)
        assert contents(logs.folder(log, topic)) == good
