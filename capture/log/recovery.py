"""Opening a partition for append: cut what was never committed, mend indexes, verify the committed tail.

What lies past the high watermark is garbage of a killed writer and is cut. Indexes are derived: a missing,
short or damaged one is made anew from the log. Committed bytes are another matter: damage there is a
CorruptLog error, nothing is cut. Batches are walked and their CRCs compared from the last index entries to
the watermark; the whole segment is where an index is missing or makes no sense.
"""

import mmap
import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from struct import Struct

from capture.log.errors import CorruptLog, storage_error
from capture.log.layout import (
    INDEX_SUFFIX,
    SUFFIXES,
    TIME_INDEX_SUFFIX,
    segment_base_offsets,
    segment_path,
)
from capture.log.segment import (
    INDEX_ENTRY,
    TIME_INDEX_ENTRY,
    BatchSummary,
    IndexTail,
    Segment,
)
from protocol.records import DecodeError, check_crc, read_header


def recover_partition(
    folder: Path, *, high_watermark: int, segment_base_offset: int, segment_bytes: int, interval_bytes: int
) -> Segment | None:
    """Bring a partition's files to what is committed; give the segment that appends go on in.

    None for a partition without one yet. Raises CorruptLog for committed bytes that are missing or damaged.
    """
    offsets = segment_base_offsets(folder)
    committed = segment_bytes > 0 or high_watermark > 0
    for base_offset in offsets:
        if base_offset > segment_base_offset or not committed:
            delete_segment(folder, base_offset)
    if not committed:
        return None
    for base_offset, following in pairwise(offsets):
        if following <= segment_base_offset:
            _mend_sealed_indexes(folder, base_offset, following, interval_bytes)
    return recover_segment(
        folder,
        segment_base_offset,
        size_bytes=segment_bytes,
        next_offset=high_watermark,
        interval_bytes=interval_bytes,
    )


def recover_segment(
    folder: Path, base_offset: int, *, size_bytes: int, next_offset: int, interval_bytes: int
) -> Segment:
    """Cut a segment to its first `size_bytes`, which end before `next_offset`; mend its indexes; open it."""
    path = segment_path(folder, base_offset)
    try:
        index, time_index, tail = _recover_indexes(path, base_offset, size_bytes, next_offset, interval_bytes)
        if path.exists():
            os.truncate(path, size_bytes)
        _bring_to(path.with_suffix(INDEX_SUFFIX), bytes(index))
        _bring_to(path.with_suffix(TIME_INDEX_SUFFIX), bytes(time_index))
    except OSError as error:
        raise storage_error(error, "cannot recover", path) from error
    return Segment(
        folder, tail, size_bytes=size_bytes, index_bytes=len(index), time_index_bytes=len(time_index)
    )


def delete_segment(folder: Path, base_offset: int) -> None:
    """Delete a segment's files, the log last: a crash between leaves no index without a log."""
    for suffix in reversed(SUFFIXES):
        segment_path(folder, base_offset, suffix).unlink(missing_ok=True)


def _mend_sealed_indexes(folder: Path, base_offset: int, next_offset: int, interval_bytes: int) -> None:
    """Make the indexes of a sealed segment anew where one is missing, of an odd size or empty."""
    path = segment_path(folder, base_offset)
    index_path, time_index_path = path.with_suffix(INDEX_SUFFIX), path.with_suffix(TIME_INDEX_SUFFIX)
    if _whole(index_path, INDEX_ENTRY.size) and _whole(time_index_path, TIME_INDEX_ENTRY.size):
        return
    index, time_index = bytearray(), bytearray()
    tail = IndexTail(base_offset, interval_bytes)
    with _mapped(path, path.stat().st_size) as view:
        _walk(path, view, 0, base_offset, next_offset, tail, index, time_index)
    tail.add_time_entry(time_index)
    _replace(index_path, bytes(index))
    _replace(time_index_path, bytes(time_index))


def _whole(path: Path, entry_bytes: int) -> bool:
    """Whether an index file has entries and nothing but whole ones.

    A segment of few batches has an empty offset index by right; looking at it again costs one walk over them.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return False
    return size > 0 and size % entry_bytes == 0


def _recover_indexes(
    path: Path, base_offset: int, size_bytes: int, next_offset: int, interval_bytes: int
) -> tuple[bytearray, bytearray, IndexTail]:
    """What the indexes should hold, and the state to go on with; verifies the batches on the way.

    The walk begins at the batch that the newest time index entry is about, found by the offset index, and
    makes all entries from there on again: whatever is missing or too much at the ends comes out right.
    """
    index, time_index = bytearray(), bytearray()
    tail = IndexTail(base_offset, interval_bytes)
    if not size_bytes:
        return index, time_index, tail
    with _mapped(path, size_bytes) as view:
        relative_end = next_offset - base_offset
        entries = _read_index(path.with_suffix(INDEX_SUFFIX), size_bytes, relative_end)
        times = _read_time_index(path.with_suffix(TIME_INDEX_SUFFIX), relative_end)
        start, expected = 0, base_offset
        last = bisect_right(entries, (times[-1][1], size_bytes)) - 1 if times else -1
        if last >= 0 and _names_a_batch(view, base_offset, entries[last]):
            start = entries[last][1]
            expected = read_header(view, start).base_offset
            for entry in entries[:last]:
                index += INDEX_ENTRY.pack(*entry)
            for time_entry in times[:-1]:
                time_index += TIME_INDEX_ENTRY.pack(*time_entry)
                tail.last_time_entry = tail.max_timestamp = time_entry[0]
                tail.max_timestamp_offset = base_offset + time_entry[1]
            tail.first_timestamp = read_header(view).max_timestamp
            # The walk's first batch had an entry, so it gets it again.
            tail.bytes_since_entry = interval_bytes + 1
        _walk(path, view, start, expected, next_offset, tail, index, time_index)
    return index, time_index, tail


def _walk(
    path: Path,
    view: memoryview,
    position: int,
    expected: int,
    next_offset: int,
    tail: IndexTail,
    index: bytearray,
    time_index: bytearray,
) -> None:
    """Verify the batches from `position` to the end, which is `next_offset`; make their index entries."""
    while position < len(view):
        try:
            header = check_crc(view, position)
        except DecodeError as error:
            raise CorruptLog(path, position, str(error)) from error
        if header.base_offset != expected:
            raise CorruptLog(path, position, f"offset {header.base_offset} stands where {expected} should")
        tail.add(
            position,
            BatchSummary(header.last_offset, header.max_timestamp, header.size_bytes),
            index,
            time_index,
        )
        expected = header.last_offset + 1
        position += header.size_bytes
    if expected != next_offset:
        raise CorruptLog(path, position, f"the last record has offset {expected - 1}, not {next_offset - 1}")


@contextmanager
def _mapped(path: Path, size_bytes: int) -> Iterator[memoryview]:
    """The first `size_bytes` of a log file, which must be there."""
    try:
        with path.open("rb") as file:
            actual = os.fstat(file.fileno()).st_size
            if actual < size_bytes:
                raise CorruptLog(path, actual, f"the file ends there, {size_bytes} bytes were committed")
            with (
                mmap.mmap(file.fileno(), size_bytes, access=mmap.ACCESS_READ) as mapped,
                memoryview(mapped) as view,
            ):
                yield view
    except FileNotFoundError:
        raise CorruptLog(path, 0, f"the file is gone, {size_bytes} bytes were committed") from None


def _read_index(path: Path, size_bytes: int, relative_end: int) -> list[tuple[int, int]]:
    """The entries up to the first that cannot be true of the committed part."""
    entries: list[tuple[int, int]] = []
    last_offset, last_position = -1, 0
    for offset, position in _entries(path, INDEX_ENTRY):
        if not (last_offset < offset < relative_end and last_position < position < size_bytes):
            break
        entries.append((offset, position))
        last_offset, last_position = offset, position
    return entries


def _read_time_index(path: Path, relative_end: int) -> list[tuple[int, int]]:
    """The entries up to the first that cannot be true of the committed part."""
    entries: list[tuple[int, int]] = []
    last_timestamp, last_offset = -1, -1
    for timestamp, offset in _entries(path, TIME_INDEX_ENTRY):
        if not (last_timestamp < timestamp and last_offset < offset < relative_end):
            break
        entries.append((timestamp, offset))
        last_timestamp, last_offset = timestamp, offset
    return entries


def _entries(path: Path, entry: Struct) -> Iterator[tuple[int, int]]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return iter(())
    return entry.iter_unpack(content[: len(content) // entry.size * entry.size])


def _names_a_batch(view: memoryview, base_offset: int, entry: tuple[int, int]) -> bool:
    try:
        return read_header(view, entry[1]).last_offset == base_offset + entry[0]
    except DecodeError:
        return False


def _bring_to(path: Path, content: bytes) -> None:
    """Make an index hold `content`; what is too much at its end is cut, anything else is a new file."""
    try:
        actual = path.read_bytes()
    except FileNotFoundError:
        actual = b""
    if actual[: len(content)] != content:
        _replace(path, content)
    elif len(actual) > len(content):
        os.truncate(path, len(content))


def _replace(path: Path, content: bytes) -> None:
    """Replace a file as a whole: one that is mapped by a reader is never cut in place."""
    unfinished = path.with_name(path.name + ".part")
    unfinished.write_bytes(content)
    unfinished.replace(path)
