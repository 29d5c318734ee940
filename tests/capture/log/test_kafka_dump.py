"""Kafka's own DumpLogSegments reads what the log writes, and complains of what is damaged.

The tool ends with 0 whatever it finds, so its words are what counts.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from capture.log import Log, Writer
from capture.log.layout import segment_base_offsets
from protocol.records import Codec, batches, records
from tests.capture.log import logs
from tests.support.jars import class_path, java, kafka_jars

COMPLAINTS = re.compile(
    r"exception|mismatch|not found|out of order|non-consecutive|isvalid: false|failed|error|corrupt", re.I
)
# DumpLogSegments 4.3 starts counting at -1 in every segment, so it calls the first offset of each one but the
# first non-consecutive: "-1 is followed by 455".
FIRST_OFFSET = re.compile(r"Non-consecutive offsets in \S+/(\d{20})\.log\n  -1 is followed by (\d+)\n")


def dump(folder: Path, *options: str, suffixes: tuple[str, ...] = (".log", ".index", ".timeindex")) -> str:
    """What the tool says of the files in `folder`."""
    files = sorted(path for path in folder.iterdir() if path.suffix in suffixes)
    command = [java(), "-XX:TieredStopAtLevel=1", "-cp", class_path(kafka_jars())]
    command += ["org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files))]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    # slf4j speaks of itself on stderr.
    return done.stdout + "".join(line for line in done.stderr.splitlines(True) if "SLF4J" not in line)


def complaints(said: str) -> list[str]:
    """The lines that complain, without the tool's own mistake."""
    said = FIRST_OFFSET.sub(lambda found: "" if int(found[1]) == int(found[2]) else found[0], said)
    return [line for line in said.splitlines() if COMPLAINTS.search(line)]


@pytest.fixture
def folder(log: Log) -> Path:
    """A partition of many segments in all codecs, with timestamps up and down, opened several times."""
    topic = logs.topic(log)
    for seed in range(4):
        logs.fill(log, topic, 60, seed=seed, segment_bytes=60_000)
        # A killed writer's garbage, which the next one cuts.
        writer = Writer.open(log, logs.CAPTURE, segment_bytes=60_000)
        writer.append(
            writer.partition(topic), [logs.batch(timestamp=2 * logs.START_MS) for _ in range(seed * 200)]
        )
        writer.close()
    Writer.open(log, logs.CAPTURE, segment_bytes=60_000).close()
    assert len(segment_base_offsets(logs.folder(log, topic))) > 3
    return logs.folder(log, topic)


def test_kafka_reads_the_log_record_by_record(folder: Path) -> None:
    said = dump(folder, "--deep-iteration", "--print-data-log", suffixes=(".log",))
    assert complaints(said) == []
    expected_batches, expected_records = [], []
    for path in sorted(folder.glob("*.log")):
        content = path.read_bytes()
        for position, header in batches(content):
            expected_batches.append(
                (header.base_offset, position, header.size_bytes, header.codec.name.lower())
            )
            expected_records += [
                (record.offset, record.timestamp, -1 if record.value is None else len(record.value))
                for record in records(content, position=position)
            ]
    found_batches = re.findall(
        r"^baseOffset: (\d+) .* position: (\d+) CreateTime: \d+ size: (\d+) magic: 2 compresscodec: (\w+) "
        r"crc: \d+ isvalid: true$",
        said,
        re.M,
    )
    assert [(int(a), int(b), int(c), d) for a, b, c, d in found_batches] == expected_batches
    assert {codec for *_, codec in found_batches} == {codec.name.lower() for codec in Codec}
    found_records = re.findall(
        r"^\| offset: (\d+) CreateTime: (\d+) keySize: -?\d+ valueSize: (-?\d+)", said, re.M
    )
    assert [tuple(map(int, found)) for found in found_records] == expected_records


def test_kafka_has_no_complaint_of_the_indexes(folder: Path) -> None:
    said = dump(folder, suffixes=(".index", ".timeindex"))
    assert complaints(said) == []
    entries = sum(path.stat().st_size // 8 for path in folder.glob("*.index"))
    time_entries = sum(path.stat().st_size // 12 for path in folder.glob("*.timeindex"))
    assert len(re.findall(r"^offset: \d+ position: \d+$", said, re.M)) == entries > 20
    assert len(re.findall(r"^timestamp: \d+ offset: \d+$", said, re.M)) == time_entries > 20
    for option, passed in (("--index-sanity-check", True), ("--verify-index-only", False)):
        said = dump(folder, option, suffixes=(".index", ".timeindex"))
        assert complaints(said) == []
        assert said.count("passed sanity check.") == (len(list(folder.glob("*.*index"))) if passed else 0)


def test_kafka_complains_of_damage(folder: Path, tmp_path: Path) -> None:
    rng, base_offset = random.Random(3), segment_base_offsets(folder)[1]
    for suffix, at in ((".log", None), (".index", 2), (".index", 5), (".timeindex", 6), (".timeindex", 11)):
        damaged = tmp_path / f"damaged{suffix}-{at}"
        damaged.mkdir()
        for path in folder.glob(f"{base_offset:020d}.*"):
            shutil.copy(path, damaged)
        path = damaged / f"{base_offset:020d}{suffix}"
        content = bytearray(path.read_bytes())
        entry = 8 if suffix == ".index" else 12
        position = rng.randrange(100, len(content)) if at is None else len(content) // entry // 2 * entry + at
        content[position] ^= 0x21
        path.write_bytes(content)
        assert complaints(dump(damaged, "--deep-iteration")) != [], (suffix, at)
