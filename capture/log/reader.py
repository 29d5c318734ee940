"""The log as its readers see it: topics, watermarks, and slices of mapped segments.

A reader writes nothing and locks nothing. It learns of commits by `refresh` (when a doorbell rings) and sees
each one whole: all partitions that a commit moved, move in one `refresh`.
"""

import resource
import uuid
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from capture.log.catalog import PartitionRow, Topic
from capture.log.errors import CorruptLog, OffsetOutOfRange
from capture.log.layout import partition_folder, segment_base_offsets, segment_path
from capture.log.mapped_segment import MappedSegment
from capture.log.store import Log
from capture.log.timestamps import first_at_or_after, largest_timestamp

# Where slices ended, so that a consumer's next fetch finds its place without an index.
_MAX_HINTS: Final = 256


class LogReader:
    """All topics of a log. `refresh` and the reads belong to one thread."""

    def __init__(self, log: Log, *, max_mapped_segments: int | None = None) -> None:
        self._log = log
        self._topics: dict[str, Topic] = {}
        self._topics_by_id: dict[uuid.UUID, Topic] = {}
        self._partitions: dict[int, PartitionReader] = {}
        self._sequence = -1
        self._topology_version = -1
        self._moved: set[int] = set()
        self._mapped = MappedSegments(max_mapped_segments or _affordable_maps())
        self.topics: Mapping[str, Topic] = MappingProxyType(self._topics)
        self.topics_by_id: Mapping[uuid.UUID, Topic] = MappingProxyType(self._topics_by_id)
        self.refresh()

    def refresh(self) -> set[int]:
        """Learn what was committed since the last time; the partition ids that moved since then."""
        self.catch_up()
        changed, self._moved = self._moved, set()
        return changed

    def catch_up(self) -> None:
        """The same for those who do not watch for moves: the next `refresh` still tells of these."""
        catalog = self._log.catalog
        if catalog.state() == (self._sequence, self._topology_version):
            return
        with catalog.consistent():
            state = catalog.state()
            _, rows = catalog.changed_partitions(self._sequence)
            topics = catalog.topics() if state.topology_version != self._topology_version else None
        if topics is not None:
            self._take_topics(topics)
        for row in rows:
            partition = self._partitions.get(row.partition_id)
            if partition is not None:
                partition.move_to(row)
                self._moved.add(row.partition_id)
        self._sequence, self._topology_version = state

    def partition(self, partition_id: int) -> "PartitionReader":
        """The partition with this catalog-wide id; KeyError where there is none."""
        return self._partitions[partition_id]

    def _take_topics(self, topics: list[Topic]) -> None:
        self._topics.clear()
        self._topics_by_id.clear()
        gone = set(self._partitions)
        for topic in topics:
            self._topics[topic.name] = topic
            self._topics_by_id[topic.topic_id] = topic
            for row in topic.partitions:
                gone.discard(row.partition_id)
                if row.partition_id not in self._partitions:
                    folder = partition_folder(self._log.data, topic.name, row.index)
                    self._partitions[row.partition_id] = PartitionReader(
                        topic.topic_id, row, folder, self._mapped, self
                    )
        for partition_id in gone:
            del self._partitions[partition_id]


class PartitionReader:
    """One partition: its watermarks as of the last refresh, and its records."""

    __slots__ = (
        "_base_offsets",
        "_folder",
        "_hints",
        "_mapped",
        "_reader",
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
        mapped: "MappedSegments",
        reader: LogReader,
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
        self._reader = reader
        # The segments of the folder that hold something committed; None: look again.
        self._base_offsets: list[int] | None = None
        # offset -> (segment, first byte of the batch that begins there)
        self._hints: dict[int, tuple[int, int]] = {}

    def move_to(self, row: PartitionRow) -> None:
        """Take over a newer state of the catalog."""
        if (
            row.segment_base_offset != self._segment_base_offset
            or row.log_start_offset != self.log_start_offset
        ):
            self._base_offsets = None
        self.log_start_offset = row.log_start_offset
        self.high_watermark = row.high_watermark
        self._segment_base_offset = row.segment_base_offset
        self._segment_bytes = row.segment_bytes

    def read(self, offset: int, max_bytes: int) -> memoryview | None:
        """Whole batches of one segment, from the one that holds `offset`; None at the high watermark.

        As many as fit into `max_bytes`, the first one always. Raises OffsetOutOfRange. The slice stays valid
        for as long as it is held, whatever becomes of the segment.
        """
        if offset == self.high_watermark:
            return None
        try:
            return self._read(offset, max_bytes)
        except FileNotFoundError:
            # Retention took the segment since the last refresh.
            self._reader.catch_up()
            self._base_offsets = None
            self._hints.clear()
        try:
            return self._read(offset, max_bytes)
        except FileNotFoundError as error:
            raise CorruptLog(Path(error.filename or self._folder), 0, "the file is gone") from error

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record that is not older than `timestamp_ms`; None if all are."""
        for segment in self._segments():
            found = first_at_or_after(segment, timestamp_ms, self.log_start_offset)
            if found is not None:
                return found
        return None

    def max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with the largest timestamp; None for an empty partition."""
        best: tuple[int, int] | None = None
        for segment in self._segments():
            found = largest_timestamp(segment, self.log_start_offset, best[1] if best else -1)
            if found is not None:
                best = found
        return best

    def _read(self, offset: int, max_bytes: int) -> memoryview:
        if not self.log_start_offset <= offset < self.high_watermark:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.high_watermark)
        hint = self._hints.get(offset)
        if hint is None:
            segment = self._segment(self._base_offset_for(offset))
            position = segment.position_of(offset)
        else:
            segment, position = self._segment(hint[0]), hint[1]
        end = segment.end_of_slice(position, max_bytes)
        if end < segment.visible_bytes:
            hints = self._hints
            if len(hints) >= _MAX_HINTS:
                hints.clear()
            hints[segment.base_offset_at(end)] = (segment.base_offset, end)
        elif segment.base_offset == self._segment_base_offset:
            self._hints[self.high_watermark] = (segment.base_offset, end)
        return segment.view[position:end]

    def _segments(self) -> list[MappedSegment]:
        if self.high_watermark == self.log_start_offset:
            return []
        first = self._base_offset_for(self.log_start_offset)
        return [self._segment(base) for base in self._list() if base >= first]

    def _segment(self, base_offset: int) -> MappedSegment:
        return self._mapped.get(
            self.partition_id,
            self._folder,
            base_offset,
            self._segment_bytes if base_offset == self._segment_base_offset else None,
        )

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


class MappedSegments:
    """The segments that are mapped, at most so many: those not used for longest go when more are wanted."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._segments: dict[tuple[int, int], MappedSegment] = {}
        self._clock = 0

    def get(self, partition_id: int, folder: Path, base_offset: int, committed: int | None) -> MappedSegment:
        """The segment, with its first `committed` bytes readable (None: it is sealed, all of it)."""
        self._clock += 1
        segment = self._segments.get((partition_id, base_offset))
        if segment is None or (committed is None) is not segment.sealed:
            if len(self._segments) >= self._limit:
                self._make_room()
            segment = MappedSegment(folder, base_offset, sealed=committed is None)
            self._segments[partition_id, base_offset] = segment
        if committed is not None and committed != segment.visible_bytes:
            segment.reach(committed)
        segment.last_used = self._clock
        return segment

    def _make_room(self) -> None:
        oldest = sorted(self._segments, key=lambda key: self._segments[key].last_used)
        for key in oldest[: max(1, self._limit // 4)]:
            del self._segments[key]


def _affordable_maps() -> int:
    """A mapped segment holds two descriptors: use a quarter of those this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2048 if soft == resource.RLIM_INFINITY else max(16, min(2048, soft // 8))
