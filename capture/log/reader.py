"""The log as its readers see it: topics, watermarks, and slices of mapped segments.

A reader writes nothing and locks nothing. It learns of commits by `refresh` (when a doorbell rings) and sees
each one whole: all partitions that a commit moved, move in one `refresh`.
"""

import uuid
from collections.abc import Mapping
from types import MappingProxyType

from capture.log.catalog import Topic
from capture.log.layout import partition_folder
from capture.log.mapped_segments import RESIDENT_BYTES, MappedSegments, affordable_segments
from capture.log.partition_reader import PartitionReader
from capture.log.store import Log


class LogReader:
    """All topics of a log. `refresh` and the reads belong to one thread."""

    def __init__(
        self,
        log: Log,
        *,
        max_mapped_segments: int | None = None,
        max_resident_bytes: int = RESIDENT_BYTES,
    ) -> None:
        """`max_mapped_segments` bounds descriptors (by default by what the process may have open)."""
        self._log = log
        self._topics: dict[str, Topic] = {}
        self._topics_by_id: dict[uuid.UUID, Topic] = {}
        self._partitions: dict[int, PartitionReader] = {}
        self._sequence = -1
        self._topology_version = -1
        self._moved: set[int] = set()
        self._mapped = MappedSegments(max_mapped_segments or affordable_segments(), max_resident_bytes)
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
            topics = catalog.topics_changed_since(self._topology_version)
        for topic in topics:
            self._take(topic)
        for row in rows:
            partition = self._partitions.get(row.partition_id)
            if partition is not None:
                partition.move_to(row)
                self._moved.add(row.partition_id)
        self._sequence, self._topology_version = state

    def partition(self, partition_id: int) -> PartitionReader:
        """The partition with this catalog-wide id; KeyError where there is none."""
        return self._partitions[partition_id]

    def _take(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        self._topics_by_id[topic.topic_id] = topic
        for row in topic.partitions:
            if row.partition_id not in self._partitions:
                folder = partition_folder(self._log.data, topic.name, row.index)
                self._partitions[row.partition_id] = PartitionReader(
                    topic.topic_id, row, folder, self._mapped, self.catch_up
                )
