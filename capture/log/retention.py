"""Retention by time and by size: which segments of a capture's topics go, and how.

Options are Kafka's topic options `retention.ms` and `retention.bytes` (-1, the default, keeps for ever), and
as in Kafka whole segments go, oldest first: those whose newest record is older than `retention.ms`, and those
without which a partition still holds `retention.bytes`. A partition whose records are all too old gets an
empty segment, so that the last one goes as well.

The catalog moves log_start_offset first, files are deleted after: a reader never finds a hole, and a crash
between leaves files that the next run deletes.
"""

from itertools import pairwise
from typing import Final, NamedTuple

from capture.log.catalog import Watermark
from capture.log.errors import storage_error
from capture.log.layout import TIME_INDEX_SUFFIX, segment_base_offsets, segment_path
from capture.log.partition_writer import PartitionWriter
from capture.log.recovery import delete_segment
from capture.log.segment import TIME_INDEX_ENTRY
from capture.log.writer import Writer

UNLIMITED: Final = -1


class Expired(NamedTuple):
    """What one run took from a partition."""

    topic: str
    partition_index: int
    log_start_offset: int
    segments: int


def enforce(writer: Writer, now_ms: int) -> list[Expired]:
    """Delete what the topics' retention lets go of; for the thread that commits, every few minutes.

    `now_ms` is the clock that the records' timestamps come from, in milliseconds since 1970. Raises Fenced,
    LogFull or LogError.
    """
    limited: list[PartitionWriter] = []
    moves: dict[PartitionWriter, int] = {}
    emptied: list[Watermark] = []
    for partition in writer.partitions():
        retention_ms = int(partition.config.get("retention.ms", UNLIMITED))
        retention_bytes = int(partition.config.get("retention.bytes", UNLIMITED))
        if retention_ms == retention_bytes == UNLIMITED:
            continue
        limited.append(partition)
        cutoff_ms = now_ms - retention_ms if retention_ms != UNLIMITED else None
        log_start = _first_to_keep(partition, cutoff_ms, retention_bytes)
        if cutoff_ms is not None and log_start == partition.committed.segment_base_offset:
            empty = partition.begin_empty_segment(older_than_ms=cutoff_ms)
            if empty is not None:
                emptied.append(empty)
                log_start = empty.segment_base_offset
        if log_start > partition.log_start_offset:
            moves[partition] = log_start
    if moves:
        writer.move_log_start(moves, emptied)
    # Also what an earlier run moved past and did not come to delete.
    return [expired for partition in limited if (expired := _delete_invisible(partition)) is not None]


def _first_to_keep(partition: PartitionWriter, cutoff_ms: int | None, retention_bytes: int) -> int:
    """The base offset of the oldest segment that stays; the committed one always does here."""
    newest = partition.committed.segment_base_offset
    offsets = [offset for offset in segment_base_offsets(partition.folder) if offset <= newest]
    sizes = {offset: _size_bytes(partition, offset) for offset in offsets}
    # What may go by size before less than retention_bytes would be left.
    surplus = sum(sizes.values()) - retention_bytes if retention_bytes != UNLIMITED else -1
    for offset, following in pairwise(offsets):
        surplus -= sizes[offset]
        too_old = cutoff_ms is not None and _is_older(partition, offset, cutoff_ms)
        if following > partition.log_start_offset and surplus < 0 and not too_old:
            return offset
    return newest


def _size_bytes(partition: PartitionWriter, base_offset: int) -> int:
    if base_offset == partition.committed.segment_base_offset:
        return partition.committed.segment_bytes
    try:
        return segment_path(partition.folder, base_offset).stat().st_size
    except OSError as error:
        raise storage_error(error, "cannot look at", segment_path(partition.folder, base_offset)) from error


def _is_older(partition: PartitionWriter, base_offset: int, cutoff_ms: int) -> bool:
    """Whether a sealed segment's newest record is older; not, where its time index cannot tell."""
    try:
        content = segment_path(partition.folder, base_offset, TIME_INDEX_SUFFIX).read_bytes()
    except FileNotFoundError:
        return False
    if len(content) < TIME_INDEX_ENTRY.size or len(content) % TIME_INDEX_ENTRY.size:
        return False
    timestamp: int = TIME_INDEX_ENTRY.unpack_from(content, len(content) - TIME_INDEX_ENTRY.size)[0]
    return timestamp < cutoff_ms


def _delete_invisible(partition: PartitionWriter) -> Expired | None:
    offsets = segment_base_offsets(partition.folder)
    log_start = partition.log_start_offset
    gone = [offset for offset, following in pairwise(offsets) if following <= log_start]
    for offset in gone:
        try:
            delete_segment(partition.folder, offset)
        except OSError as error:
            raise storage_error(error, "cannot delete", segment_path(partition.folder, offset)) from error
    return Expired(partition.topic, partition.index, log_start, len(gone)) if gone else None
