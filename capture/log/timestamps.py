"""Records by timestamp: the time index says where to begin, headers and records are walked from there.

As Kafka's LogSegment.findOffsetByTimestamp does it; timestamps are those of the records, in milliseconds
since 1970, and need not ascend.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from capture.log.layout import TIME_INDEX_SUFFIX
from capture.log.mapped_segment import MappedSegment
from capture.log.segment import TIME_INDEX_ENTRY
from protocol.records import BatchHeader, read_header, records


def first_at_or_after(segment: MappedSegment, timestamp_ms: int, from_offset: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record from `from_offset` on that is not older than `timestamp_ms`."""
    if segment.sealed:
        last = _last_entry(segment)
        if last is not None and last[0] < timestamp_ms:
            return None
    offset = max(from_offset, _entry_before(segment, timestamp_ms), segment.base_offset)
    for position, header in _batches(segment, offset):
        if header.max_timestamp < timestamp_ms:
            continue
        for record in records(segment.view, position=position):
            if record.timestamp >= timestamp_ms and record.offset >= from_offset:
                return record.offset, record.timestamp
    return None


def largest_timestamp(segment: MappedSegment, from_offset: int, above: int) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record with the segment's largest timestamp, if that is > `above`."""
    last = _last_entry(segment)
    if segment.sealed and last is not None and last[0] <= above:
        return None
    offset = max(from_offset, last[1] if last is not None else 0, segment.base_offset)
    best: tuple[int, int] | None = None
    for position, header in _batches(segment, offset):
        if header.max_timestamp > (best[1] if best else above):
            for record in records(segment.view, position=position):
                if record.offset >= from_offset and record.timestamp > (best[1] if best else above):
                    best = record.offset, record.timestamp
    return best


def _batches(segment: MappedSegment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    position = segment.position_of(offset)
    while position < segment.visible_bytes:
        header = read_header(segment.view, position)
        yield position, header
        position += header.size_bytes


def _entry_before(segment: MappedSegment, timestamp_ms: int) -> int:
    """The offset in the last entry whose timestamp is not past `timestamp_ms`; the base offset if none."""
    found = segment.base_offset
    for timestamp, offset in _entries(segment):
        if timestamp > timestamp_ms:
            break
        found = offset
    return found


def _last_entry(segment: MappedSegment) -> tuple[int, int] | None:
    last = None
    for entry in _entries(segment):
        last = entry
    return last


def _entries(segment: MappedSegment) -> Iterator[tuple[int, int]]:
    try:
        content = _read(segment.path.with_suffix(TIME_INDEX_SUFFIX))
    except FileNotFoundError:
        return
    for timestamp, relative in TIME_INDEX_ENTRY.iter_unpack(content[: len(content) // 12 * 12]):
        yield timestamp, segment.base_offset + relative


def _read(path: Path) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(file, os.fstat(file).st_size, 0)
    finally:
        os.close(file)
