"""One partition under append: its active segment, what is not synced yet, and where each batch ended.

The appending thread calls `append`, `truncate` and `park`; the committing one `end_of`, `sync` and
`committed_to`. `_guard` covers the little that both touch and is never held over a write or a sync;
`committing` is held by a commit while it works on the files, so that nothing is cut or closed under it;
`_appending` keeps retention from taking the active segment away under an append.
"""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from capture.log.catalog import PartitionRow, Topic, Watermark
from capture.log.recovery import recover_partition
from capture.log.segment import MAX_RELATIVE_OFFSET, BatchSummary, Segment, sync_folder
from protocol.records import BatchHeader, read_header, stamp


class PartitionWriter:
    """A partition of the writer's capture. `next_offset` is where the next record goes, committed or not."""

    def __init__(
        self, topic: Topic, row: PartitionRow, folder: Path, *, segment_bytes: int, interval_bytes: int
    ) -> None:
        self.topic = topic.name
        self.topic_id = topic.topic_id
        self.partition_id = row.partition_id
        self.index = row.index
        self.leader_epoch = row.leader_epoch
        self.folder = folder
        self.log_start_offset = row.log_start_offset
        self.next_offset = row.high_watermark
        # Where the committed part ends: the offset, its segment, the byte in it.
        self.committed = Watermark(
            row.partition_id, row.high_watermark, row.segment_base_offset, row.segment_bytes
        )
        self.committing = threading.Lock()
        self._appending = threading.Lock()
        self._guard = threading.Lock()
        self._default_segment_bytes = segment_bytes
        self.configure(topic.config)
        self._interval_bytes = interval_bytes
        self._active: Segment | None = None
        self._unsynced_sealed: list[Segment] = []
        self._names_unsynced = False
        self._ends: deque[Watermark] = deque()
        self._recover()

    @property
    def high_watermark(self) -> int:
        """The offset after the last committed record."""
        return self.committed.high_watermark

    def configure(self, config: Mapping[str, str]) -> None:
        """Take over a topic's options: `segment.bytes` and `segment.ms` here, the rest for retention."""
        self.config = config
        self._segment_bytes = int(config.get("segment.bytes", self._default_segment_bytes))
        self._segment_ms = int(config.get("segment.ms", -1))

    # --- the appending thread ---------------------------------------------------------------------------

    def append(self, batches: Sequence[bytearray | bytes]) -> int:
        """Stamp and append finished batches; the offset after them. Raises LogFull, LogError, DecodeError."""
        with self._appending:
            pieces: list[bytearray] = []
            summaries: list[BatchSummary] = []
            next_offset, pending_bytes = self.next_offset, 0
            for batch in batches:
                header = read_header(batch)
                if header.size_bytes != len(batch):
                    raise ValueError(
                        f"{len(batch)} bytes hold a batch of {header.size_bytes}: append whole batches"
                    )
                if self._must_roll(header, next_offset, pending_bytes):
                    self._write(pieces, summaries)
                    self._roll(next_offset)
                    pieces, summaries, pending_bytes = [], [], 0
                stamped = batch if isinstance(batch, bytearray) else bytearray(batch)
                stamp(stamped, next_offset, self.leader_epoch)
                last_offset = next_offset + header.last_offset_delta
                pieces.append(stamped)
                summaries.append(BatchSummary(last_offset, header.max_timestamp, header.size_bytes))
                pending_bytes += header.size_bytes
                next_offset = last_offset + 1
            self._write(pieces, summaries)
            return self.next_offset

    def truncate(self) -> None:
        """Drop everything past the high watermark."""
        with self.committing, self._appending:
            self._close_files()
            self._ends.clear()
            self.next_offset = self.high_watermark
            self._recover()

    def park(self) -> None:
        """Sync and close the files; the next append opens them again. Waits for whoever works on them."""
        with self.committing, self._appending:
            self.sync()
            if self._active is not None:
                self._active.close()

    # --- the committing thread --------------------------------------------------------------------------

    def end_of(self, offset: int) -> Watermark:
        """Where the batch that ends before `offset` ends. ValueError unless such a batch was appended."""
        if offset == self.committed.high_watermark:
            return self.committed
        with self._guard:
            for end in self._ends:
                if end.high_watermark == offset:
                    return end
        raise ValueError(
            f"{self.topic}-{self.index}: no batch ends at offset {offset} between the high watermark "
            f"{self.high_watermark} and {self.next_offset}"
        )

    def sync(self) -> None:
        """Make everything durable that was appended before the call. The caller holds `committing`."""
        with self._guard:
            sealed, active = list(self._unsynced_sealed), self._active
            names_unsynced, self._names_unsynced = self._names_unsynced, False
        for segment in sealed:
            segment.sync()
            segment.close()
        with self._guard:
            del self._unsynced_sealed[: len(sealed)]
        if active is not None and active.synced_bytes < active.size_bytes:
            active.sync()
        if names_unsynced:
            sync_folder(self.folder)

    def committed_to(self, end: Watermark) -> None:
        """Take note that the catalog moved the watermark."""
        self.committed = end
        with self._guard:
            while self._ends and self._ends[0].high_watermark <= end.high_watermark:
                self._ends.popleft()

    def begin_empty_segment(self, *, older_than_ms: int) -> Watermark | None:
        """Roll, if all records are committed and older: where the watermark stands in the new segment.

        None where there is anything newer, uncommitted, or nothing at all. For retention, which tells the
        catalog and then `committed_to`.
        """
        with self._appending:
            active, end = self._active, self.committed
            if (
                active is None
                or not active.size_bytes
                or self.next_offset != end.high_watermark
                or active.tail.max_timestamp >= older_than_ms
            ):
                return None
            self._roll(self.next_offset)
        self.park()  # nothing may be appended for long, and all partitions may have come here at once
        return Watermark(self.partition_id, end.high_watermark, end.high_watermark, 0)

    def close(self) -> None:
        """Close the files as they are."""
        with self.committing, self._appending:
            self._close_files()

    # --- segments ---------------------------------------------------------------------------------------

    def _must_roll(self, header: BatchHeader, base_offset: int, pending_bytes: int) -> bool:
        active = self._active
        if active is None:
            return True
        filled = active.size_bytes + pending_bytes
        if filled == 0:
            return False
        first = active.tail.first_timestamp
        return (
            filled + header.size_bytes > self._segment_bytes
            or base_offset + header.last_offset_delta - active.base_offset > MAX_RELATIVE_OFFSET
            or (
                self._segment_ms >= 0
                and first is not None
                and header.max_timestamp - first > self._segment_ms
            )
        )

    def _roll(self, base_offset: int) -> None:
        """Seal the active segment, if there is one, and begin the next."""
        active = self._active
        if active is not None:
            active.open()
            active.seal()
        elif not self.folder.exists():
            self.folder.mkdir(parents=True)
            sync_folder(self.folder.parent)
        following = Segment.create(self.folder, base_offset, self._interval_bytes)
        with self._guard:
            if active is not None:
                self._unsynced_sealed.append(active)
            self._active = following
            self._names_unsynced = True

    def _write(self, pieces: Sequence[bytearray], summaries: Sequence[BatchSummary]) -> None:
        active = self._active
        if not summaries or active is None:
            return
        active.open()
        position = active.size_bytes
        active.append(pieces, summaries)
        ends = []
        for batch in summaries:
            position += batch.size_bytes
            ends.append(Watermark(self.partition_id, batch.last_offset + 1, active.base_offset, position))
        with self._guard:
            self._ends.extend(ends)
        self.next_offset = summaries[-1].last_offset + 1

    def _recover(self) -> None:
        end = self.committed
        self._active = recover_partition(
            self.folder,
            high_watermark=end.high_watermark,
            segment_base_offset=end.segment_base_offset,
            segment_bytes=end.segment_bytes,
            interval_bytes=self._interval_bytes,
        )

    def _close_files(self) -> None:
        for segment in self._unsynced_sealed:
            segment.close()
        self._unsynced_sealed.clear()
        if self._active is not None:
            self._active.close()
            self._active = None
