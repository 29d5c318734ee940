"""kill -9 of a writer at random moments: nothing lost, nothing doubled, no watermark goes back."""

from __future__ import annotations

import json
import random
import select
import subprocess
import sys
import time
from pathlib import Path

from capture.log import Log, LogReader, Writer
from tests.capture.log import logs
from tests.capture.log.endless_writer import TOPICS

ROUNDS = 30
ROOT = Path(__file__).resolve().parents[3]


def check(reader: LogReader, seen: dict[str, int]) -> None:
    """What became visible since `seen` is dense, whole and what its offsets stand for; moves `seen` on."""
    reader.refresh()
    for name in TOPICS:
        if name not in reader.topics:
            continue
        partition = reader.partition(reader.topics[name].partitions[0].partition_id)
        first, end = seen.get(name, 0), partition.high_watermark
        assert end >= first, "no high watermark goes back"
        found = logs.read_all(partition, offset=first)
        assert [record.offset for record in found] == list(range(first, end))
        assert [record.value for record in found] == [f"{name} {n}".encode() for n in range(first, end)]
        middle = (first + end) // 2
        if found:
            assert partition.offset_for_timestamp(logs.START_MS + middle) == (middle, logs.START_MS + middle)
        seen[name] = end


def position(log: Log) -> dict[str, int]:
    """The watermarks that the newest commit's position tells of."""
    row = log.catalog.capture(logs.CAPTURE)
    return json.loads(row.position) if row is not None and row.position else {}


def test_a_killed_writer_loses_and_doubles_nothing(log: Log) -> None:
    rng = random.Random(12)
    throughout, seen = LogReader(log), dict[str, int]()
    for number in range(ROUNDS):
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.capture.log.endless_writer", str(log.data), str(number)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        try:
            if number % 3:
                assert child.stdout.readline().endswith("\n"), "the writer did not open"
            # The others may be killed while they open, and recover.
            deadline = time.monotonic() + rng.random() * (0.1 if number % 3 else 0.3)
            while (left := deadline - time.monotonic()) > 0:
                check(throughout, seen)
                select.select([child.stdout], [], [], min(left, 0.01))
        finally:
            child.kill()
            lines = child.stdout.read().splitlines()
            child.wait()
            child.stdout.close()
        check(throughout, seen)
        assert position(log) == (seen if any(seen.values()) else {}), "records and position move together"
        # The last line may be cut off where the kill fell into it.
        reported = [json.loads(line) for line in lines if line.endswith("}")]
        if reported:
            assert all(seen[name] >= end for name, end in reported[-1].items())
    assert min(seen.values()) > 1000
    Writer.open(log, logs.CAPTURE, segment_bytes=20_000, index_interval_bytes=500).close()
    from_the_start = dict[str, int]()
    check(LogReader(log), from_the_start)
    assert from_the_start == seen
