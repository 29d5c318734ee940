"""A capture's single writer: append, then commit.

One thread appends (batches go to the page cache, invisible), another commits: it syncs the files touched,
moves watermarks and position in one catalog transaction, and rings the doorbells. Nothing is visible before
that, and what was appended but not committed is cut when the capture is opened the next time.

After an error of storage or catalog a writer does nothing more: what is on the disk is then unknown (a failed
fsync may have dropped pages), and opening anew is what finds out.
"""

import fcntl
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final

from capture.log.catalog import Topic, Watermark
from capture.log.doorbell import Ringer
from capture.log.errors import LeaseHeld, LogError, storage_error
from capture.log.layout import lock_path, partition_folder
from capture.log.partition_writer import PartitionWriter
from capture.log.store import Log

SEGMENT_BYTES: Final = 1024 * 1024 * 1024
INDEX_INTERVAL_BYTES: Final = 4096
# Three descriptors each.
MAX_OPEN_SEGMENTS: Final = 200
SYNC_THREADS: Final = 8


class Writer:
    """The one writer of a capture, by a lock on this host and an epoch in the catalog."""

    def __init__(
        self,
        log: Log,
        capture: str,
        lease: int,
        *,
        segment_bytes: int,
        index_interval_bytes: int,
        max_open_segments: int,
    ) -> None:
        self.log = log
        self.capture = capture
        self._lease = lease
        self._segment_bytes = segment_bytes
        self._interval_bytes = index_interval_bytes
        self._max_open_segments = max_open_segments
        self._partitions: dict[int, PartitionWriter] = {}
        self._used: OrderedDict[int, PartitionWriter] = OrderedDict()
        self._failed: LogError | None = None
        # Its threads begin with the first commit that touches more than one partition.
        self._syncing = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="log-sync")
        self._ringer = Ringer(log.data)
        self.epoch = 0
        self.position: str | None = None

    @classmethod
    def open(
        cls,
        log: Log,
        capture: str,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        index_interval_bytes: int = INDEX_INTERVAL_BYTES,
        max_open_segments: int = MAX_OPEN_SEGMENTS,
    ) -> "Writer":
        """Become the writer of `capture` and bring its partitions to what was committed.

        Raises LeaseHeld while another process of this host writes it, CorruptLog for damaged committed data.
        `segment_bytes` holds for topics without a `segment.bytes` of their own.
        """
        writer = cls(
            log,
            capture,
            _take_lease(log.data, capture),
            segment_bytes=segment_bytes,
            index_interval_bytes=index_interval_bytes,
            max_open_segments=max_open_segments,
        )
        try:
            writer._begin()
        except BaseException:
            writer.close()
            raise
        return writer

    def _begin(self) -> None:
        """Fence older writers, then recover."""
        row = self.log.catalog.take_over(self.capture)
        self.epoch, self.position = row.epoch, row.position
        for topic in self.log.catalog.topics():
            if topic.capture == self.capture:
                for partition in topic.partitions:
                    self.partition(topic, partition.index)

    def partition(self, topic: Topic, index: int = 0) -> PartitionWriter:
        """The partition of `topic` to append to. Raises LogError if the topic is another capture's."""
        row = topic.partitions[index]
        known = self._partitions.get(row.partition_id)
        if known is not None:
            known.configure(topic.config)
            return known
        if topic.capture != self.capture:
            raise LogError(f"topic {topic.name!r} belongs to capture {topic.capture!r}, not {self.capture!r}")
        partition = PartitionWriter(
            topic,
            row,
            partition_folder(self.log.data, topic.name, index),
            segment_bytes=self._segment_bytes,
            interval_bytes=self._interval_bytes,
        )
        self._partitions[row.partition_id] = partition
        return partition

    def partitions(self) -> list[PartitionWriter]:
        """All partitions of the capture that are known to this writer."""
        return list(self._partitions.values())

    def append(self, partition: PartitionWriter, batches: Sequence[bytearray | bytes]) -> int:
        """Stamp finished batches with offsets and append them, not yet visible; the offset after them.

        A bytearray is stamped in place. Raises LogFull or LogError; the writer must then be opened anew.
        """
        self._check()
        try:
            next_offset = partition.append(batches)
        except LogError as error:
            self._failed = error
            raise
        self._note_use(partition)
        return next_offset

    def commit(self, position: str | None, watermarks: Mapping[PartitionWriter, int]) -> None:
        """Make `watermarks` and `position` (None: leave it) durable and visible, all at once.

        A watermark is an offset that `append` gave, or the end of a batch before it; ValueError if it is
        neither. May run in another thread than `append`. Raises LogFull, Fenced or LogError; the writer must
        then be opened anew.
        """
        self._check()
        ends = {partition: partition.end_of(offset) for partition, offset in watermarks.items()}
        moves = {partition: end for partition, end in ends.items() if end != partition.committed}
        if not moves and position is None:
            return
        held: list[PartitionWriter] = []
        try:
            for partition in moves:
                partition.committing.acquire()
                held.append(partition)
            self._sync(held)
            self.log.catalog.commit(self.capture, self.epoch, position, moves.values())
            for partition, end in moves.items():
                partition.committed_to(end)
        except LogError as error:
            self._failed = error
            raise
        finally:
            for partition in held:
                partition.committing.release()
        if position is not None:
            self.position = position
        if moves:
            self._ringer.ring()

    def move_log_start(self, moves: Mapping[PartitionWriter, int], emptied: Sequence[Watermark] = ()) -> None:
        """Give up the records below the given offsets; for retention. Raises Fenced, LogFull or LogError.

        `emptied` partitions have their high watermark at the start of a new segment from now on.
        """
        self._check()
        try:
            self.log.catalog.move_log_start(
                self.capture,
                self.epoch,
                [(partition.partition_id, offset) for partition, offset in moves.items()],
                emptied,
            )
        except LogError as error:
            self._failed = error
            raise
        ends = {end.partition_id: end for end in emptied}
        for partition, offset in moves.items():
            partition.log_start_offset = offset
            if partition.partition_id in ends:
                partition.committed_to(ends[partition.partition_id])
        self._ringer.ring()

    def truncate_uncommitted(self, partition: PartitionWriter) -> None:
        """Drop what was appended to `partition` and not committed; for the thread that appends."""
        self._check()
        partition.truncate()

    def close(self) -> None:
        """Give up the lease. What was not committed is dropped when the capture is opened the next time."""
        for partition in self._partitions.values():
            partition.close()
        self._partitions.clear()
        self._used.clear()
        self._ringer.close()
        self._syncing.shutdown()
        if self._lease >= 0:
            os.close(self._lease)
            self._lease = -1

    def _sync(self, partitions: Sequence[PartitionWriter]) -> None:
        """Sync several at once: the disk takes them together, and one after the other takes its time."""
        others = [self._syncing.submit(partition.sync) for partition in partitions[1:]]
        try:
            for partition in partitions[:1]:
                partition.sync()
        finally:
            # Whatever fails, no file is in use any more afterwards.
            wait(others)
        for other in others:
            other.result()

    def _check(self) -> None:
        if self._failed is not None:
            raise LogError(f"the writer of {self.capture!r} failed before: {self._failed}") from self._failed
        if self._lease < 0:
            raise LogError(f"the writer of {self.capture!r} is closed")

    def _note_use(self, partition: PartitionWriter) -> None:
        used = self._used
        used[partition.partition_id] = partition
        used.move_to_end(partition.partition_id)
        if len(used) > self._max_open_segments:
            _, oldest = used.popitem(last=False)
            try:
                oldest.park()
            except LogError as error:
                self._failed = error
                raise


def _take_lease(data: Path, capture: str) -> int:
    """Lock the capture on this host for as long as the descriptor is open."""
    path = lock_path(data, "capture", capture)
    try:
        lease = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise storage_error(error, "cannot lock", path) from error
    try:
        fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lease, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(lease)
        raise LeaseHeld(
            f"capture {capture!r} is being written by another process (pid {holder}): stop that one first, "
            f"or give this capture another name"
        ) from None
    os.ftruncate(lease, 0)
    os.pwrite(lease, str(os.getpid()).encode(), 0)
    return lease
