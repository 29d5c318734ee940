"""Records by timestamp: the time index says where to begin, headers and records are walked from there.

As Kafka's LogSegment.findOffsetByTimestamp does it; timestamps are those of the records, in milliseconds
since 1970, and need not ascend. Entries of offsets that are not committed are not looked at.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path

from capture.log.errors import CorruptLog
from capture.log.layout import TIME_INDEX_SUFFIX
from capture.log.mapped_segment import MappedSegment
from capture.log.segment import TIME_INDEX_ENTRY
from protocol.records import BatchHeader, DecodeError, Record, read_header, records

_ENTRY_BYTES = TIME_INDEX_ENTRY.size


class TimeIndex:
    """The entries of a segment's time index below `end_offset`, as they are now."""

    def __init__(self, log_path: Path, base_offset: int, end_offset: int) -> None:
        self._content = _read(log_path.with_suffix(TIME_INDEX_SUFFIX))
        self._base_offset = base_offset
        entries = range(len(self._content) // _ENTRY_BYTES)
        self._count = bisect_left(entries, end_offset, key=lambda entry: self._entry(entry)[1])

    def last(self) -> tuple[int, int] | None:
        """The last entry, (timestamp, offset): of a sealed segment, its largest timestamp."""
        return self._entry(self._count - 1) if self._count else None

    def before(self, timestamp_ms: int) -> int:
        """The offset in the last entry that is not past `timestamp_ms`; without one, the base offset."""
        found = bisect_right(range(self._count), timestamp_ms, key=lambda entry: self._entry(entry)[0])
        return self._entry(found - 1)[1] if found else self._base_offset

    def _entry(self, number: int) -> tuple[int, int]:
        timestamp, relative = TIME_INDEX_ENTRY.unpack_from(self._content, number * _ENTRY_BYTES)
        return timestamp, self._base_offset + relative


def first_at_or_after(
    segment: MappedSegment, index: TimeIndex, timestamp_ms: int, from_offset: int
) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record from `from_offset` on that is not older than `timestamp_ms`."""
    for position, header in _batches(segment, max(from_offset, index.before(timestamp_ms))):
        if header.max_timestamp < timestamp_ms:
            continue
        for record in _records(segment, position):
            if record.timestamp >= timestamp_ms and record.offset >= from_offset:
                return record.offset, record.timestamp
    return None


def largest_timestamp(
    segment: MappedSegment, index: TimeIndex, from_offset: int, above: int
) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record with the segment's largest timestamp, if that is > `above`."""
    last = index.last()
    best: tuple[int, int] | None = None
    for position, header in _batches(segment, max(from_offset, last[1] if last else segment.base_offset)):
        if header.max_timestamp <= above:
            continue
        for record in _records(segment, position):
            if record.offset >= from_offset and record.timestamp > above:
                best = record.offset, record.timestamp
                above = record.timestamp
    return best


def _batches(segment: MappedSegment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    position = segment.position_of(max(offset, segment.base_offset))
    # Cut at the committed bytes: a damaged length must not lead past them.
    view = segment.view[: segment.visible_bytes]
    while position < len(view):
        try:
            header = read_header(view, position)
        except DecodeError as error:
            raise CorruptLog(segment.path, position, str(error)) from error
        yield position, header
        position += header.size_bytes


def _records(segment: MappedSegment, position: int) -> Iterator[Record]:
    try:
        yield from records(segment.view[: segment.visible_bytes], position=position)
    except DecodeError as error:
        raise CorruptLog(segment.path, position, str(error)) from error


def _read(path: Path) -> bytes:
    """A whole index, or nothing where there is none: it only says where to begin."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(file, os.fstat(file).st_size, 0)
    finally:
        os.close(file)
