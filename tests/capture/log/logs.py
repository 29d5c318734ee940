"""Small logs for the tests of the log: batches to append, records read back."""

from __future__ import annotations

import random
from pathlib import Path

from capture.log import Log, PartitionReader, Topic, Writer
from capture.log.layout import partition_folder
from protocol.records import Codec, Record, batches, build, check_crc, records

CAPTURE = "shop"
START_MS = 1_700_000_000_000


def batch(
    count: int = 1, *, timestamp: int = START_MS, value_bytes: int = 20, codec: Codec = Codec.NONE
) -> bytearray:
    """A batch of `count` records, timestamps ascending by one."""
    return build([Record(n, timestamp + n, b"key", b"v" * value_bytes) for n in range(count)], codec=codec)


def random_batch(rng: random.Random, *, timestamp: int = START_MS) -> bytearray:
    """A batch of up to 20 records in any codec, timestamps up and down."""
    made = [
        Record(
            n,
            timestamp + rng.randrange(-20, 20),
            rng.randbytes(5) if rng.random() < 0.7 else None,
            rng.randbytes(rng.randrange(300)) if rng.random() < 0.8 else None,
            (("h", b"x"),) * rng.randrange(3),
        )
        for n in range(rng.randrange(1, 20))
    ]
    return build(made, codec=rng.choice(list(Codec)))


def topic(log: Log, name: str = "shop.public.orders", **config: str) -> Topic:
    """A topic of the capture these tests write; option names with `_` for `.`."""
    return log.catalog.create_topic(
        name, capture=CAPTURE, config={key.replace("_", "."): value for key, value in config.items()} or None
    )


def folder(log: Log, of: Topic) -> Path:
    """Where the topic's first partition is."""
    return partition_folder(log.data, of.name, 0)


def fill(log: Log, of: Topic, count: int, *, seed: int = 1, **options: int) -> list[Record]:
    """Append and commit `count` random batches by a writer of their own; the records as they must be read."""
    rng = random.Random(seed)
    writer = Writer.open(log, CAPTURE, **options)
    partition = writer.partition(of)
    expected: list[Record] = []
    timestamp = START_MS
    for number in range(count):
        timestamp += rng.randrange(-3, 15)
        made = random_batch(rng, timestamp=timestamp)
        first = partition.next_offset
        expected += [record._replace(offset=first + record.offset) for record in records(made)]
        end = writer.append(partition, [made])
        if number % 10 == 9 or number == count - 1:
            writer.commit(None, {partition: end})
    writer.close()
    return expected


def read_all(partition: PartitionReader, max_bytes: int = 1 << 20, offset: int | None = None) -> list[Record]:
    """Every visible record, by slices of `max_bytes`, each checked."""
    found: list[Record] = []
    offset = partition.log_start_offset if offset is None else offset
    while (view := partition.read(offset, max_bytes)) is not None:
        first_size = None
        for position, header in batches(view):
            first_size = first_size or header.size_bytes
            check_crc(view, position)
            found += [record for record in records(view, position=position) if record.offset >= offset]
            following = header.last_offset + 1
        assert first_size is not None
        assert len(view) <= max(max_bytes, first_size)
        assert following > offset
        offset = following
    assert offset == partition.high_watermark
    return found
