"""A segment under append: the log file and Kafka's two sparse indexes beside it.

`.index` holds (relative offset int32, position int32) of a batch's last offset and first byte; `.timeindex`
holds (timestamp int64, relative offset int32) of the largest timestamp so far and the last offset of the
batch that brought it. An entry is written with the batch before which more than `index_interval_bytes` were
appended since the entry before, so never with the first one, and the time index gets a last entry when the
segment is sealed: org.apache.kafka.storage.internals.log.LogSegment (append, onBecomeInactiveSegment).

Everything is written at a known position. A failed append leaves the numbers here as they were, and the next
one overwrites what it left in the files.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from capture.log.errors import storage_error
from capture.log.layout import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_path

INDEX_ENTRY: Final = Struct(">ii")
TIME_INDEX_ENTRY: Final = Struct(">qi")
MAX_RELATIVE_OFFSET: Final = 2**31 - 1

_MAX_PIECES: Final = min(os.sysconf("SC_IOV_MAX"), 1024)


class BatchSummary(NamedTuple):
    """What the indexes need to know of a batch."""

    last_offset: int
    max_timestamp: int
    size_bytes: int


class IndexTail:
    """The state that decides which index entries the next batches get."""

    __slots__ = (
        "base_offset",
        "bytes_since_entry",
        "first_timestamp",
        "interval_bytes",
        "last_time_entry",
        "max_timestamp",
        "max_timestamp_offset",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.bytes_since_entry = 0
        self.first_timestamp: int | None = None
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.last_time_entry = -1

    def copy(self) -> "IndexTail":
        """The same state, to go on with and throw away if the append fails."""
        other = IndexTail(self.base_offset, self.interval_bytes)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def add(self, position: int, batch: BatchSummary, index: bytearray, time_index: bytearray) -> None:
        """Count a batch at `position`; put what entries it brings at the ends of `index` and `time_index`."""
        if self.first_timestamp is None:
            self.first_timestamp = batch.max_timestamp
        if batch.max_timestamp > self.max_timestamp:
            self.max_timestamp = batch.max_timestamp
            self.max_timestamp_offset = batch.last_offset
        if self.bytes_since_entry > self.interval_bytes:
            index += INDEX_ENTRY.pack(batch.last_offset - self.base_offset, position)
            self.add_time_entry(time_index)
            self.bytes_since_entry = 0
        self.bytes_since_entry += batch.size_bytes

    def add_time_entry(self, time_index: bytearray) -> None:
        """Put the largest timestamp so far at the end of `time_index`, if it is larger than the last one."""
        if self.max_timestamp > self.last_time_entry:
            time_index += TIME_INDEX_ENTRY.pack(
                self.max_timestamp, self.max_timestamp_offset - self.base_offset
            )
            self.last_time_entry = self.max_timestamp


class Segment:
    """A segment's files and how far they are written. It is made closed; `open` before the first append."""

    def __init__(
        self, folder: Path, tail: IndexTail, *, size_bytes: int, index_bytes: int, time_index_bytes: int
    ) -> None:
        self.folder = folder
        self.base_offset = tail.base_offset
        self.tail = tail
        self.size_bytes = size_bytes
        self.index_bytes = index_bytes
        self.time_index_bytes = time_index_bytes
        # How much of the log file is known to be durable.
        self.synced_bytes = size_bytes
        self.sealed = False
        self._files: tuple[int, int, int] | None = None

    @classmethod
    def create(cls, folder: Path, base_offset: int, interval_bytes: int) -> "Segment":
        """Begin an empty segment, open; files that stand there already (never committed) are emptied."""
        tail = IndexTail(base_offset, interval_bytes)
        segment = cls(folder, tail, size_bytes=0, index_bytes=0, time_index_bytes=0)
        segment.open()
        try:
            for file in segment._opened():
                os.truncate(file, 0)
        except OSError as error:
            raise storage_error(error, "cannot create", segment.path) from error
        return segment

    @property
    def is_open(self) -> bool:
        """Whether the files are open."""
        return self._files is not None

    def open(self) -> None:
        """Open the files, if they are not. Raises LogError."""
        if self._files is not None:
            return
        files: list[int] = []
        try:
            for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                path = segment_path(self.folder, self.base_offset, suffix)
                files.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        except OSError as error:
            for file in files:
                os.close(file)
            raise storage_error(error, "cannot open", self.path) from error
        self._files = (files[0], files[1], files[2])

    def close(self) -> None:
        """Close the files, synced or not."""
        if self._files is not None:
            for file in self._files:
                os.close(file)
            self._files = None

    @property
    def path(self) -> Path:
        """The log file."""
        return segment_path(self.folder, self.base_offset)

    def append(
        self, pieces: Sequence[bytes | bytearray | memoryview], batches: Sequence[BatchSummary]
    ) -> None:
        """Write stamped batches and their index entries to the page cache. Raises LogFull or LogError."""
        tail, position = self.tail.copy(), self.size_bytes
        index, time_index = bytearray(), bytearray()
        for batch in batches:
            tail.add(position, batch, index, time_index)
            position += batch.size_bytes
        log_file, index_file, time_index_file = self._opened()
        try:
            _write_all(log_file, pieces, self.size_bytes)
            if index:
                _write_all(index_file, (index,), self.index_bytes)
            if time_index:
                _write_all(time_index_file, (time_index,), self.time_index_bytes)
        except OSError as error:
            raise storage_error(error, "cannot append to", self.path) from error
        self.tail = tail
        self.size_bytes = position
        self.index_bytes += len(index)
        self.time_index_bytes += len(time_index)

    def seal(self) -> None:
        """Write the time index's last entry and cut off what a failed append left; nothing follows."""
        entry = bytearray()
        self.tail.add_time_entry(entry)
        log_file, index_file, time_index_file = self._opened()
        try:
            if entry:
                _write_all(time_index_file, (entry,), self.time_index_bytes)
            self.time_index_bytes += len(entry)
            os.truncate(log_file, self.size_bytes)
            os.truncate(index_file, self.index_bytes)
            os.truncate(time_index_file, self.time_index_bytes)
        except OSError as error:
            raise storage_error(error, "cannot seal", self.path) from error
        self.sealed = True

    def sync(self) -> None:
        """Make the log durable; of a sealed segment the indexes too (recovery makes those of others anew)."""
        log_file, index_file, time_index_file = self._opened()
        size_bytes = self.size_bytes
        try:
            if self.synced_bytes < size_bytes:
                os.fdatasync(log_file)
                self.synced_bytes = size_bytes
            if self.sealed:
                os.fdatasync(index_file)
                os.fdatasync(time_index_file)
        except OSError as error:
            raise storage_error(error, "cannot sync", self.path) from error

    def _opened(self) -> tuple[int, int, int]:
        if self._files is None:
            raise ValueError(f"{self.path} is not open")
        return self._files


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable (a new file is not found after a power cut otherwise)."""
    try:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        raise storage_error(error, "cannot sync", folder) from error


def _write_all(file: int, pieces: Sequence[bytes | bytearray | memoryview], position: int) -> None:
    """Write every byte at `position`; the system may take fewer at a time than it is given."""
    rest: list[bytes | bytearray | memoryview] = list(pieces)
    while rest:
        now = rest[:_MAX_PIECES]
        written = os.pwritev(file, now, position)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        position += written
        done = 0
        while done < len(now) and written >= len(now[done]):
            written -= len(now[done])
            done += 1
        del rest[:done]
        if written:
            rest[0] = memoryview(rest[0])[written:]
