"""The segments a reader has mapped: few enough for its descriptors, and little enough of them resident.

A page that was sent from a mapping counts to the process until it is let go, although it is the page cache's
and costs nothing to keep. A reader of a long log would seem to hold all of it, so the pages touched longest
ago are let go beyond a bound; touching them again is a minor fault.
"""

import resource
from collections import deque
from pathlib import Path
from typing import Final

from capture.log.mapped_segment import CHUNK_BITS, MappedSegment

RESIDENT_BYTES: Final = 64 * 1024 * 1024


class MappedSegments:
    """At most `limit` mapped segments: those not used for longest go when more are wanted."""

    def __init__(self, limit: int, max_resident_bytes: int) -> None:
        self._limit = limit
        self._max_chunks = max(1, max_resident_bytes >> CHUNK_BITS)
        self._segments: dict[tuple[int, int], MappedSegment] = {}
        self._resident: deque[tuple[MappedSegment, int]] = deque()
        # Counts look-ups, to tell what was used last.
        self.clock = 0

    def __len__(self) -> int:
        return len(self._segments)

    def get(self, partition_id: int, folder: Path, base_offset: int, committed: int | None) -> MappedSegment:
        """The segment, with its first `committed` bytes readable (None: it is sealed, all of it).

        FileNotFoundError if it is gone, CorruptLog if it is shorter than that.
        """
        self.clock += 1
        key = (partition_id, base_offset)
        segment = self._segments.get(key)
        if segment is None or (committed is None) is not segment.sealed:
            if len(self._segments) >= self._limit:
                self._make_room()
            segment = MappedSegment(folder, base_offset, sealed=committed is None)
            if key in self._segments:
                self._drop(key)
            self._segments[key] = segment
        if committed is not None and committed != segment.visible_bytes:
            segment.reach(committed)
        segment.last_used = self.clock
        return segment

    def forget(self, partition_id: int) -> None:
        """Unmap a partition's segments, as soon as no slice of them is in use."""
        for key in [key for key in self._segments if key[0] == partition_id]:
            self._drop(key)

    def touch(self, segment: MappedSegment, begin: int, end: int) -> None:
        """Count the pages from `begin` to `end` as resident, and let go those that are too many."""
        resident = self._resident
        for chunk in range(begin >> CHUNK_BITS, ((end - 1) >> CHUNK_BITS) + 1):
            if chunk not in segment.resident:
                segment.resident.add(chunk)
                resident.append((segment, chunk))
                if len(resident) > self._max_chunks:
                    oldest, its_chunk = resident.popleft()
                    oldest.let_go(its_chunk)

    def _make_room(self) -> None:
        oldest = sorted(self._segments, key=lambda key: self._segments[key].last_used)
        for key in oldest[: max(1, self._limit // 4)]:
            self._drop(key)

    def _drop(self, key: tuple[int, int]) -> None:
        segment = self._segments.pop(key)
        if segment.resident:
            self._resident = deque(entry for entry in self._resident if entry[0] is not segment)
        segment.release()


def affordable_segments() -> int:
    """A mapped segment holds up to three descriptors: use a quarter of those this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2048 if soft == resource.RLIM_INFINITY else max(16, min(2048, soft // 12))
