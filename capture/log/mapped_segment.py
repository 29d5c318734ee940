"""A segment under read: its log mapped into memory, its index for finding offsets and bytes.

Nothing past the committed bytes is ever touched: what lies there may be cut at any time, and touching a
mapped page past the end of its file kills the process. The mapping of the active segment may reach further,
to what was the end of the file when it was made, so that it need not be made anew at every commit. The
offset index of a sealed segment is mapped as well; of the active one, whose tail may be cut too, the
committed entries are read into memory as they come.

Mappings are never closed by hand: slices of them may be on their way to a client, and the last slice to go
takes the mapping with it.
"""

import mmap
import os
from array import array
from bisect import bisect_right
from pathlib import Path
from struct import Struct
from typing import Final

from capture.log.errors import CorruptLog
from capture.log.file_range import SegmentFile
from capture.log.layout import INDEX_SUFFIX, segment_path
from capture.log.segment import INDEX_ENTRY
from protocol.records import HEADER_SIZE

_OFFSET_AND_LENGTH: Final = Struct(">qi")
_LAST_OFFSET_DELTA: Final = Struct(">i")
_DELTA_AT: Final = 23
_MAGIC_AT: Final = 16
_INT32: Final = Struct(">i")

# Resident pages are counted and let go in pieces of 2 MiB.
CHUNK_BITS: Final = 21

# Slices no larger than this find their end by walking headers, larger ones begin the walk at an index entry.
_WORTH_THE_INDEX: Final = 16 * 1024
# So far the headers are walked for the last bytes that fit into a slice.
_FAR_ENOUGH: Final = 64 * 1024
# The index of the active segment is read when so much of the log is not covered by what was read of it.
_WORTH_READING: Final = 32 * 1024


class MappedSegment:
    """A segment's committed bytes. `sealed` is given by who made it: no more will be committed to it."""

    __slots__ = (
        "_file",
        "_index",
        "_index_entries",
        "_index_read_at",
        "_offsets",
        "_positions",
        "base_offset",
        "folder",
        "last_used",
        "mapped_bytes",
        "path",
        "resident",
        "sealed",
        "view",
        "visible_bytes",
    )

    def __init__(self, folder: Path, base_offset: int, *, sealed: bool) -> None:
        self.folder = folder
        self.base_offset = base_offset
        self.path = segment_path(folder, base_offset)
        self.sealed = sealed
        self.view = memoryview(b"")
        self.mapped_bytes = 0
        self.visible_bytes = 0
        self.last_used = 0
        # The chunks of the mapping that were touched since they were last let go.
        self.resident: set[int] = set()
        self._file: SegmentFile | None = None
        # Sealed: the mapped index. Active: the committed entries so far.
        self._index: memoryview | None = None
        self._index_entries = 0
        self._index_read_at = 0
        self._offsets = array("i")
        self._positions = array("i")
        if sealed:
            self._map()
            self.visible_bytes = self.mapped_bytes

    def reach(self, visible_bytes: int) -> None:
        """Make the first `visible_bytes`, which are committed, readable. FileNotFoundError if it is gone."""
        if visible_bytes > self.mapped_bytes:
            self._map()
            if visible_bytes > self.mapped_bytes:
                raise CorruptLog(
                    self.path, self.mapped_bytes, f"the file ends there, {visible_bytes} bytes were committed"
                )
        self.visible_bytes = visible_bytes

    def position_of(self, offset: int) -> int:
        """The first byte of the batch that holds `offset`, which must be committed and not below the base."""
        position = self._index_lookup(offset)
        found = self._walk_to(offset, position)
        if found is None and position:
            # The index misled us: a damaged one must not make records unreadable.
            found = self._walk_to(offset, 0)
        if found is None:
            raise CorruptLog(self.path, position, f"no batch holds offset {offset}")
        return found

    def end_of_slice(self, position: int, max_bytes: int) -> int:
        """The end of the batches from `position` on that fit into `max_bytes`; of the first one at least."""
        limit, visible_bytes, view = position + max_bytes, self.visible_bytes, self.view
        if limit >= visible_bytes:
            return visible_bytes
        end = self._following(position)
        if end >= limit:
            return end
        if max_bytes > _WORTH_THE_INDEX:
            boundary = self._boundary_before(limit)
            if boundary > end and self._begins_batch(boundary):
                end = boundary
        walked_from = end
        while True:
            # What is committed goes on past `limit`, so a whole batch stands here unless the log is damaged.
            if visible_bytes - end < HEADER_SIZE:
                raise CorruptLog(self.path, end, "a batch header runs past the committed bytes")
            (length,) = _INT32.unpack_from(view, end + 8)
            following = end + 12 + length
            if following > limit or following - walked_from > _FAR_ENOUGH:
                return end
            if length < HEADER_SIZE - 12:
                raise CorruptLog(self.path, end, f"impossible batch length {length}")
            end = following

    def end_of_range(self, position: int, max_bytes: int) -> tuple[int, int] | None:
        """Where a large slice ends that ends before the committed bytes do, and the base offset that follows.

        The index and the file tell, and no page of the mapping is touched. None where they do not: then
        `end_of_slice` does.
        """
        limit = position + max_bytes
        boundary = self._boundary_before(limit)
        if boundary <= position or limit + HEADER_SIZE > self.visible_bytes:
            return None
        headers = self.file().read_late(boundary, min(limit - boundary, _FAR_ENOUGH) + HEADER_SIZE, position)
        at = 0
        while len(headers) - at >= HEADER_SIZE and headers[at + _MAGIC_AT] == 2:
            base_offset, length = _OFFSET_AND_LENGTH.unpack_from(headers, at)
            following = at + 12 + length
            if base_offset < self.base_offset or length < HEADER_SIZE - 12:
                return None
            if following > len(headers) - HEADER_SIZE:
                return boundary + at, base_offset
            at = following
        return None

    def let_go(self, chunk: int) -> None:
        """Give back the pages of a chunk; slices of it stay valid, and fault them in again when touched."""
        self.resident.discard(chunk)
        begin = chunk << CHUNK_BITS
        if begin < self.mapped_bytes:
            length = min(1 << CHUNK_BITS, self.mapped_bytes - begin)
            mapping = self.view.obj
            assert isinstance(mapping, mmap.mmap)
            mapping.madvise(mmap.MADV_DONTNEED, begin, length)

    def release(self) -> None:
        """Let go of the mappings; slices keep theirs."""
        self.view = memoryview(b"")
        self._index = None
        self._file = None
        self.mapped_bytes = self.visible_bytes = 0
        self.resident.clear()

    def file(self) -> SegmentFile:
        """The log file, opened at first use. FileNotFoundError if it is gone."""
        file = self._file
        if file is None:
            file = self._file = SegmentFile(self.path)
        return file

    def base_offset_at(self, position: int) -> int:
        """The base offset of the batch at `position`."""
        return int.from_bytes(self.view[position : position + 8])

    def _following(self, position: int) -> int:
        """The byte after the batch at `position`."""
        visible_bytes = self.visible_bytes
        if visible_bytes - position < HEADER_SIZE:
            raise CorruptLog(self.path, position, "a batch header runs past the committed bytes")
        (length,) = _INT32.unpack_from(self.view, position + 8)
        following: int = position + 12 + length
        if length < HEADER_SIZE - 12 or following > visible_bytes:
            raise CorruptLog(self.path, position, f"impossible batch length {length}")
        return following

    def _begins_batch(self, position: int) -> bool:
        view = self.view
        if self.visible_bytes - position < HEADER_SIZE or view[position + _MAGIC_AT] != 2:
            return False
        base_offset, length = _OFFSET_AND_LENGTH.unpack_from(view, position)
        return bool(
            base_offset >= self.base_offset
            and length >= HEADER_SIZE - 12
            and position + 12 + length <= self.visible_bytes
        )

    def _walk_to(self, offset: int, position: int) -> int | None:
        """The batch that holds `offset`, looked for from `position` on; None if that does not lead there."""
        view, visible_bytes = self.view, self.visible_bytes
        while visible_bytes - position >= HEADER_SIZE and view[position + _MAGIC_AT] == 2:
            base_offset, length = _OFFSET_AND_LENGTH.unpack_from(view, position)
            following = position + 12 + length
            if base_offset > offset or length < HEADER_SIZE - 12 or following > visible_bytes:
                return None
            (delta,) = _LAST_OFFSET_DELTA.unpack_from(view, position + _DELTA_AT)
            if base_offset + delta >= offset:
                return position
            position = following
        return None

    # --- the index --------------------------------------------------------------------------------------

    def _index_lookup(self, offset: int) -> int:
        """The position in the last index entry that is not past `offset`; 0 where there is none."""
        relative = offset - self.base_offset
        if not self.sealed:
            self._read_index()
            found = bisect_right(self._offsets, relative) - 1
            return self._positions[found] if found >= 0 else 0
        index = self._mapped_index()
        found = bisect_right(
            range(self._index_entries), relative, key=lambda entry: _INT32.unpack_from(index, entry * 8)[0]
        )
        return self._checked_position(index, found - 1)

    def _boundary_before(self, limit: int) -> int:
        """The largest position in the index that is not past `limit`; 0 where there is none."""
        if not self.sealed:
            self._read_index()
            found = bisect_right(self._positions, limit) - 1
            return self._positions[found] if found >= 0 else 0
        index = self._mapped_index()
        found = bisect_right(
            range(self._index_entries), limit, key=lambda entry: _INT32.unpack_from(index, entry * 8 + 4)[0]
        )
        return self._checked_position(index, found - 1)

    def _checked_position(self, index: memoryview, entry: int) -> int:
        if entry < 0:
            return 0
        position: int = _INT32.unpack_from(index, entry * 8 + 4)[0]
        return position if 0 <= position < self.visible_bytes else 0

    def _mapped_index(self) -> memoryview:
        index = self._index
        if index is None:
            try:
                index = _map_file(self.path.with_suffix(INDEX_SUFFIX))
            except FileNotFoundError:
                # It only saves time. The writer makes it anew when it next opens the partition.
                index = memoryview(b"")
            self._index = index
            self._index_entries = len(index) // INDEX_ENTRY.size
        return index

    def _read_index(self) -> None:
        """Take over the entries that were committed since the last time, if they may be worth it."""
        last = self._positions[-1] if self._positions else 0
        if self.visible_bytes - max(last, self._index_read_at) < _WORTH_READING:
            return
        self._index_read_at = self.visible_bytes
        try:
            file = os.open(self.path.with_suffix(INDEX_SUFFIX), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            size = os.fstat(file).st_size
            begin = len(self._positions) * INDEX_ENTRY.size
            content = os.pread(file, max(0, size - begin), begin)
        finally:
            os.close(file)
        last_offset = self._offsets[-1] if self._offsets else -1
        for offset, position in INDEX_ENTRY.iter_unpack(content[: len(content) // 8 * 8]):
            if position >= self.visible_bytes or position <= last or offset <= last_offset:
                break
            self._offsets.append(offset)
            self._positions.append(position)
            last, last_offset = position, offset

    def _map(self) -> None:
        self.view = _map_file(self.path)
        self.mapped_bytes = len(self.view)
        self.resident.clear()


def _map_file(path: Path) -> memoryview:
    """Map a file as it is now; an empty one cannot be mapped and gives no bytes."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not os.fstat(file).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file, 0, access=mmap.ACCESS_READ))
    finally:
        os.close(file)
