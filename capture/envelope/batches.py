"""Records waiting to become record batches, in pure Python; the compiled encoder cuts at the same places.

A chunk is one future batch: it takes records until it holds `batch_bytes`, and is cut in two when it is taken
while its last records belong to a transaction that is still open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from capture.envelope.value_writer import varint
from protocol.records import Codec, finish


class Output(NamedTuple):
    """One finished record batch (base offset 0). `committed` is false for records of an open transaction."""

    topic: str
    partition: int
    batch: bytearray
    record_count: int
    committed: bool
    max_timestamp: int


@dataclass(slots=True)
class Chunk:
    """Records as (timestamp, bytes after the offset delta); `size` is that of the encoded records."""

    base_timestamp: int
    records: list[tuple[int, bytes]] = field(default_factory=list)
    size: int = 0
    committed: int = 0

    def append(self, timestamp: int, tail: bytes) -> int:
        """Add a record; returns its encoded size."""
        deltas = len(varint(timestamp - self.base_timestamp)) + len(varint(len(self.records)))
        body = 1 + deltas + len(tail)
        size = len(varint(body)) + body
        self.records.append((timestamp, tail))
        self.size += size
        return size


class TopicBuffer:
    """The chunks of one partition, oldest first."""

    def __init__(self, topic: str, partition: int, batch_bytes: int) -> None:
        self.topic = topic
        self.partition = partition
        self.batch_bytes = batch_bytes
        self.chunks: list[Chunk] = []
        self.open = False

    def append(self, timestamp: int, tail: bytes) -> int:
        """Add a record behind the last; returns its encoded size."""
        if not self.chunks or self.chunks[-1].size >= self.batch_bytes:
            self.chunks.append(Chunk(timestamp))
        return self.chunks[-1].append(timestamp, tail)

    def commit(self) -> None:
        """All records so far belong to complete transactions."""
        for chunk in self.chunks:
            chunk.committed = len(chunk.records)
        self.open = False

    def discard_open(self) -> int:
        """Drop the records of the open transaction; returns the bytes freed."""
        before = sum(chunk.size for chunk in self.chunks)
        kept = [_rebuild(chunk.records[: chunk.committed]) for chunk in self.chunks if chunk.committed]
        for chunk in kept:
            chunk.committed = len(chunk.records)
        self.chunks = kept
        self.open = False
        return before - sum(chunk.size for chunk in kept)

    def take(self, include_open: bool) -> list[tuple[Chunk, bool]]:
        """Remove the chunks that may be written, each with whether it is committed."""
        taken: list[tuple[Chunk, bool]] = []
        kept: list[Chunk] = []
        for chunk in self.chunks:
            if chunk.committed == len(chunk.records):
                taken.append((chunk, True))
                continue
            rest = chunk
            if chunk.committed:
                taken.append((_rebuild(chunk.records[: chunk.committed]), True))
                rest = _rebuild(chunk.records[chunk.committed :])
            if include_open:
                taken.append((rest, False))
            else:
                kept.append(rest)
        self.chunks = kept
        return taken


def _rebuild(records: list[tuple[int, bytes]]) -> Chunk:
    chunk = Chunk(records[0][0])
    for timestamp, tail in records:
        chunk.append(timestamp, tail)
    return chunk


def finish_chunk(chunk: Chunk, codec: Codec, level: int | None) -> tuple[bytearray, int]:
    """The finished batch of a chunk and its largest timestamp."""
    parts: list[bytes] = []
    for offset, (timestamp, tail) in enumerate(chunk.records):
        body = b"\x00" + varint(timestamp - chunk.base_timestamp) + varint(offset) + tail
        parts += (varint(len(body)), body)
    newest = max(timestamp for timestamp, _ in chunk.records)
    batch = finish(
        b"".join(parts),
        record_count=len(chunk.records),
        base_timestamp=chunk.base_timestamp,
        max_timestamp=newest,
        codec=codec,
        level=level,
    )
    return batch, newest
