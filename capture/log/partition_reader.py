"""One partition under read: which segment and which bytes an offset or a timestamp stands for."""

import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from capture.log.catalog import PartitionRow
from capture.log.errors import CorruptLog, OffsetOutOfRange
from capture.log.file_range import WORTH_BYTES, FileRange
from capture.log.layout import segment_base_offsets, segment_path
from capture.log.mapped_segment import CHUNK_BITS, MappedSegment
from capture.log.mapped_segments import MappedSegments
from capture.log.timestamps import TimeIndex, first_at_or_after, largest_timestamp

# Where slices ended, so that a consumer's next fetch finds its place without an index.
_MAX_HINTS: Final = 256


class PartitionReader:
    """A partition: its watermarks as of the last refresh, and its records."""

    __slots__ = (
        "_base_offsets",
        "_catch_up",
        "_folder",
        "_hints",
        "_mapped",
        "_newest_ms",
        "_position",
        "_recent",
        "_segment_base_offset",
        "_segment_bytes",
        "high_watermark",
        "index",
        "leader_epoch",
        "log_start_offset",
        "partition_id",
        "topic_id",
    )

    def __init__(
        self,
        topic_id: uuid.UUID,
        row: PartitionRow,
        folder: Path,
        mapped: MappedSegments,
        catch_up: Callable[[], None],
    ) -> None:
        self.topic_id = topic_id
        self.partition_id = row.partition_id
        self.index = row.index
        self.leader_epoch = row.leader_epoch
        self.log_start_offset = row.log_start_offset
        self.high_watermark = row.high_watermark
        self._segment_base_offset = row.segment_base_offset
        self._segment_bytes = row.segment_bytes
        self._folder = folder
        self._mapped = mapped
        self._catch_up = catch_up
        # The segments of the folder that hold something committed; None: look again.
        self._base_offsets: list[int] | None = None
        # offset -> (segment, first byte of the batch that begins there)
        self._hints: dict[int, tuple[int, int]] = {}
        # The segment of the last slice, and where the slice began.
        self._recent: MappedSegment | None = None
        self._position = 0
        # The largest timestamps of sealed segments that were asked for, by base offset.
        self._newest_ms: dict[int, int] = {}

    def move_to(self, row: PartitionRow) -> None:
        """Take over a newer state of the catalog."""
        if row.log_start_offset != self.log_start_offset:
            # What retention deletes takes room on the disk for as long as it is mapped.
            self._mapped.forget(self.partition_id)
            self._hints.clear()
            self._newest_ms.clear()
            self._base_offsets = None
        elif row.segment_base_offset != self._segment_base_offset:
            self._base_offsets = None
        self.log_start_offset = row.log_start_offset
        self.high_watermark = row.high_watermark
        self._segment_base_offset = row.segment_base_offset
        self._segment_bytes = row.segment_bytes

    def read(self, offset: int, max_bytes: int) -> memoryview | None:
        """Whole batches of one segment, from the one that holds `offset`; None at the high watermark.

        As many as fit into `max_bytes`, the first one always. Raises OffsetOutOfRange, and CorruptLog for
        damage that is met on the way. The slice stays valid for as long as it is held, whatever becomes of
        the segment.
        """
        try:
            return self._read(offset, max_bytes)
        except FileNotFoundError:
            self._segments_are_gone()
        try:
            return self._read(offset, max_bytes)
        except FileNotFoundError as error:
            raise _missing(error, self._folder) from error

    def read_to_send(self, offset: int, max_bytes: int) -> memoryview | FileRange | None:
        """The same, but a large slice comes as a range of its file."""
        if max_bytes >= WORTH_BYTES and (found := self._next_range(offset, max_bytes)) is not None:
            return found
        view = self.read(offset, max_bytes)
        if view is None or len(view) < WORTH_BYTES or self._recent is None:
            return view
        try:
            file = self._recent.file()
        except FileNotFoundError:
            # Retention took it just now; the mapping still has it.
            return view
        file.will_need(self._position, len(view))
        return FileRange(file, self._position, view, partial(self._mapped.touch, self._recent))

    def _next_range(self, offset: int, max_bytes: int) -> FileRange | None:
        """The range that begins where a slice ended before, found without touching the mapping."""
        hint = self._hints.get(offset)
        if hint is None or not self.log_start_offset <= offset < self.high_watermark:
            return None
        base_offset, position = hint
        try:
            segment = self._segment(base_offset)
            found = segment.end_of_range(position, max_bytes)
            if found is None:
                return None
            end, following = found
            if end - position < WORTH_BYTES:
                return None
            file = segment.file()
        except FileNotFoundError:
            return None
        if len(self._hints) >= _MAX_HINTS:
            self._hints.clear()
        self._hints[following] = (base_offset, end)
        return FileRange(file, position, segment.view[position:end], partial(self._mapped.touch, segment))

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record that is not older than `timestamp_ms`; None if all are."""
        try:
            return self._offset_for_timestamp(timestamp_ms)
        except FileNotFoundError:
            self._segments_are_gone()
        try:
            return self._offset_for_timestamp(timestamp_ms)
        except FileNotFoundError as error:
            raise _missing(error, self._folder) from error

    def max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with the largest timestamp; None for an empty partition."""
        try:
            return self._max_timestamp()
        except FileNotFoundError:
            self._segments_are_gone()
        try:
            return self._max_timestamp()
        except FileNotFoundError as error:
            raise _missing(error, self._folder) from error

    def _read(self, offset: int, max_bytes: int) -> memoryview | None:
        if offset >= self.high_watermark or offset < self.log_start_offset:
            if offset == self.high_watermark:
                return None
            raise OffsetOutOfRange(offset, self.log_start_offset, self.high_watermark)
        hints = self._hints
        hint = hints.get(offset)
        if hint is not None:
            segment, position = self._segment(hint[0]), hint[1]
        if hint is None or position >= segment.visible_bytes:
            # Not seen before, or the segment ended where the slice did, and the next one begins here.
            segment = self._segment(self._base_offset_for(offset))
            position = segment.position_of(offset)
            hints[offset] = (segment.base_offset, position)
        end = segment.end_of_slice(position, max_bytes)
        if len(hints) >= _MAX_HINTS:
            hints.clear()
        if end < segment.visible_bytes:
            hints[segment.base_offset_at(end)] = (segment.base_offset, end)
        elif segment.base_offset == self._segment_base_offset:
            hints[self.high_watermark] = (segment.base_offset, end)
        self._position = position
        chunk = position >> CHUNK_BITS
        if chunk not in segment.resident or chunk != (end - 1) >> CHUNK_BITS:
            self._mapped.touch(segment, position, end)
        return segment.view[position:end]

    def _offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        for base_offset, end_offset in self._extents():
            if self._newest(base_offset, end_offset) >= timestamp_ms:
                index = self._time_index(base_offset, end_offset)
                segment = self._segment(base_offset)
                found = first_at_or_after(segment, index, timestamp_ms, self.log_start_offset)
                if found is not None:
                    return found
        return None

    def _max_timestamp(self) -> tuple[int, int] | None:
        best: tuple[int, int] | None = None
        for base_offset, end_offset in self._extents():
            above = best[1] if best else -1
            if self._newest(base_offset, end_offset) > above:
                index = self._time_index(base_offset, end_offset)
                segment = self._segment(base_offset)
                best = largest_timestamp(segment, index, self.log_start_offset, above) or best
        return best

    def _extents(self) -> Iterator[tuple[int, int]]:
        """The segments that hold something visible: base offset, and the offset after the last record."""
        if self.log_start_offset == self.high_watermark:
            return
        bases = self._list()
        first = bases.index(self._base_offset_for(self.log_start_offset))
        yield from zip(bases[first:], [*bases[first + 1 :], self.high_watermark], strict=True)

    def _newest(self, base_offset: int, end_offset: int) -> float:
        """The largest timestamp of a sealed segment; of the active one, as long as it is not known, any."""
        if base_offset == self._segment_base_offset:
            return float("inf")
        newest = self._newest_ms.get(base_offset)
        if newest is None:
            last = self._time_index(base_offset, end_offset).last()
            if last is None:
                return float("inf")
            newest = self._newest_ms[base_offset] = last[0]
        return newest

    def _time_index(self, base_offset: int, end_offset: int) -> TimeIndex:
        return TimeIndex(segment_path(self._folder, base_offset), base_offset, end_offset)

    def _segment(self, base_offset: int) -> MappedSegment:
        recent = self._recent
        committed = self._segment_bytes if base_offset == self._segment_base_offset else None
        if (
            recent is not None
            and recent.base_offset == base_offset
            # A released segment has no visible bytes.
            and (recent.visible_bytes if recent.sealed else committed == recent.visible_bytes)
        ):
            recent.last_used = self._mapped.clock
            return recent
        recent = self._mapped.get(self.partition_id, self._folder, base_offset, committed)
        self._recent = recent
        return recent

    def _base_offset_for(self, offset: int) -> int:
        bases = self._list()
        found = bisect_right(bases, offset) - 1
        if found < 0:
            raise FileNotFoundError(2, "no segment", str(segment_path(self._folder, offset)))
        return bases[found]

    def _list(self) -> list[int]:
        bases = self._base_offsets
        if bases is None:
            newest = self._segment_base_offset
            bases = [base for base in segment_base_offsets(self._folder) if base <= newest]
            self._base_offsets = bases
        return bases

    def _segments_are_gone(self) -> None:
        """A file was not there: retention took it since the last refresh. Find out what there is now."""
        self._catch_up()
        self._mapped.forget(self.partition_id)
        self._hints.clear()
        self._base_offsets = None


def _missing(error: FileNotFoundError, folder: Path) -> CorruptLog:
    return CorruptLog(Path(error.filename or folder), 0, "the file is gone")
