"""A full disk: a clear error, everything committed still there, and on it goes once there is room."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from capture.log import Log, LogFull, LogReader, PartitionWriter, Writer
from protocol.records import records
from tests.capture.log import logs


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a small tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def write_until_full(
    writer: Writer, partition: PartitionWriter, rng: random.Random, most_batches: int = 5
) -> list[bytes | None]:
    """Commit random batches until that fails for want of space; the values that were committed."""
    committed: list[bytes | None] = []
    while True:
        made = [logs.random_batch(rng) for _ in range(rng.randrange(1, most_batches))]
        values = [record.value for batch in made for record in records(batch)]
        try:
            writer.commit(str(len(committed)), {partition: writer.append(partition, made)})
        except LogFull as error:
            said = str(error)
            break
        committed += values
    assert "Free space on that file system" in said
    assert "what was committed stays readable" in said
    return committed


@pytest.mark.parametrize("segment_bytes", [20_000, 10**9])
@pytest.mark.parametrize("seed", range(3))
def test_a_full_file_system_loses_nothing(small_disk: Path, segment_bytes: int, seed: int) -> None:
    rng = random.Random(seed)
    log = Log.open(small_disk / "data", create=True)
    topic = logs.topic(log)
    reader = LogReader(log)
    # Leaves less than the log needs, so that either the catalog or a segment is what meets the end.
    stone = small_disk / "stone"
    stone.write_bytes(bytes(1_000_000 + 10_000 * seed))
    expected: list[bytes | None] = []
    for more_room in (0, 0, 200_000):
        os.truncate(stone, stone.stat().st_size - more_room)
        try:
            writer = Writer.open(log, logs.CAPTURE, segment_bytes=segment_bytes)
        except LogFull:
            continue
        partition = writer.partition(topic)
        expected += write_until_full(writer, partition, rng)
        writer.close()
        reader.refresh()
        seen = reader.partition(partition.partition_id)
        assert [record.value for record in logs.read_all(seen)] == expected
    stone.unlink()
    writer = Writer.open(log, logs.CAPTURE, segment_bytes=segment_bytes)
    partition = writer.partition(topic)
    assert partition.next_offset == len(expected) > 100
    end = writer.append(partition, [logs.batch(3)])
    writer.commit("after", {partition: end})
    reader.refresh()
    found = logs.read_all(reader.partition(partition.partition_id))
    assert [record.value for record in found[:-3]] == expected
    assert len(found) == end
    writer.close()
    log.close()


def test_a_file_size_limit_is_named_and_survived(log: Log) -> None:
    topic = logs.topic(log)
    writer = Writer.open(log, logs.CAPTURE)
    partition = writer.partition(topic)
    rng = random.Random(1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_000_000, limits[1]))
        expected = write_until_full(writer, partition, rng, most_batches=200)
        writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    writer = Writer.open(log, logs.CAPTURE)
    partition = writer.partition(topic)
    writer.commit("after", {partition: writer.append(partition, [logs.batch()])})
    found = logs.read_all(LogReader(log).partition(partition.partition_id))
    assert [record.value for record in found[:-1]] == expected
    writer.close()
