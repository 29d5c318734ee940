"""A power cut: of the files only what was synced is left, and that is enough for every committed record."""

from __future__ import annotations

import os
import random
import sqlite3
from pathlib import Path

import pytest

from capture.log import Log, LogReader, Writer
from capture.log.layout import CATALOG, TOPICS
from protocol.records import Record, records
from tests.capture.log import logs


class Disk:
    """What a power cut would leave of the segments: contents as last synced, names as their folder was."""

    def __init__(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._data = data
        self._contents: dict[Path, bytes] = {}
        self._names: dict[Path, set[str]] = {}
        fdatasync, fsync = os.fdatasync, os.fsync

        def sync_file(file: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{file}"))
            content = path.read_bytes()
            fdatasync(file)
            self._contents[path] = content

        def sync_folder(file: int) -> None:
            folder = Path(os.readlink(f"/proc/self/fd/{file}"))
            names = set(os.listdir(folder))
            fsync(file)
            self._names[folder] = names

        monkeypatch.setattr(os, "fdatasync", sync_file)
        monkeypatch.setattr(os, "fsync", sync_folder)

    def leave(self, to: Path) -> None:
        """Make the data directory as it would be found; the catalog is whole, which SQLite sees to."""
        Log.open(to, create=True).close()
        for name in os.listdir(to):
            if name.startswith(CATALOG):
                (to / name).unlink()
        source, copy = sqlite3.connect(self._data / CATALOG), sqlite3.connect(to / CATALOG)
        source.backup(copy)
        source.close()
        copy.close()
        for folder_name in self._names.get(self._data / TOPICS, ()):
            folder = self._data / TOPICS / folder_name
            (to / TOPICS / folder_name).mkdir()
            for name in self._names.get(folder, ()):
                content = self._contents.get(folder / name, b"")
                (to / TOPICS / folder_name / name).write_bytes(content)


@pytest.mark.parametrize("seed", range(4))
def test_every_committed_record_survives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    options = {"segment_bytes": 9000, "index_interval_bytes": 700}
    log = Log.open(tmp_path / "data", create=True)
    disk = Disk(log.data, monkeypatch)
    writer = Writer.open(log, logs.CAPTURE, **options)
    topics = [logs.topic(log, f"t{n}") for n in range(3)]
    committed: dict[str, list[Record]] = {topic.name: [] for topic in topics}
    pending: dict[str, list[Record]] = {topic.name: [] for topic in topics}
    for cut in range(8):
        for _ in range(rng.randrange(1, 25)):
            topic = rng.choice(topics)
            partition = writer.partition(topic)
            made = logs.random_batch(rng)
            first = partition.next_offset
            pending[topic.name] += [r._replace(offset=first + r.offset) for r in records(made)]
            writer.append(partition, [made])
            if rng.random() < 0.3:
                some = rng.sample(topics, rng.randrange(1, 4))
                writer.commit(
                    None, {writer.partition(one): writer.partition(one).next_offset for one in some}
                )
                for one in some:
                    committed[one.name] += pending[one.name]
                    pending[one.name].clear()
        left = tmp_path / f"left-{cut}"
        disk.leave(left)
        found = Log.open(left)
        again = Writer.open(found, logs.CAPTURE, **options)
        reader = LogReader(found)
        for topic in topics:
            partition_reader = reader.partition(topic.partitions[0].partition_id)
            assert logs.read_all(partition_reader) == committed[topic.name]
            assert again.partition(topic).next_offset == len(committed[topic.name])
        again.close()
        found.close()
    writer.close()
    log.close()
