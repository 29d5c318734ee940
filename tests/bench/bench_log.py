"""What the log costs: appends and commits, slices read, the way from a commit to whoever listens.

    python -m tests.bench.bench_log [--data DIR]

Prints a table; times are of this machine and this disk, with fsync on.
"""

from __future__ import annotations

import argparse
import random
import select
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from capture.log import Listener, Log, LogReader, PartitionReader, Ringer, Writer
from capture.log.catalog import Watermark
from protocol.records import Codec, Record, build, encode_record, finish, read_header

CAPTURE = "bench"


def main() -> None:
    """Run all of it in a directory of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None, help="a directory on the disk to measure")
    folder = Path(tempfile.mkdtemp(dir=parser.parse_args().data))
    try:
        log = Log.open(folder, create=True)
        commits(log)
        many_topics(log)
        group_commits(log)
        wake(log)
        bulk(log)
        reads(log)
        refreshes(log)
        log.close()
    finally:
        shutil.rmtree(folder)


def show(name: str, value: float, unit: str) -> None:
    """One line of the table."""
    print(f"{name:58s} {value:12,.1f} {unit}")


def percentiles(name: str, seconds: list[float]) -> None:
    """The median and the 99th percentile in microseconds."""
    seconds.sort()
    show(f"{name} p50", seconds[len(seconds) // 2] * 1e6, "µs")
    show(f"{name} p99", seconds[len(seconds) * 99 // 100] * 1e6, "µs")


def each(count: int, work: Callable[[], object]) -> list[float]:
    """How long each call took."""
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return taken


def batch_of(value_bytes: int, count: int = 1) -> bytearray:
    """A batch of `count` records of so many bytes."""
    value = random.Random(1).randbytes(value_bytes)
    return build([Record(n, 1_700_000_000_000, b"key", value) for n in range(count)])


def commits(log: Log) -> None:
    """One small batch appended and committed, over and over; then the parts of it alone."""
    writer = Writer.open(log, CAPTURE)
    partition = writer.partition(log.catalog.create_topic("commits", capture=CAPTURE))
    made = batch_of(300)
    percentiles("append, 1 batch of 400 B", each(3000, lambda: writer.append(partition, [made])))
    writer.commit("0", {partition: partition.next_offset})
    percentiles(
        "append + commit, 1 batch of 400 B",
        each(500, lambda: writer.commit("1", {partition: writer.append(partition, [made])})),
    )

    def sync() -> None:
        writer.append(partition, [made])
        partition.sync()

    percentiles("  of that: append + fdatasync of the segment", each(500, sync))
    end = partition.committed
    percentiles(
        "  of that: the catalog's transaction",
        each(500, lambda: log.catalog.commit(CAPTURE, writer.epoch, "2", [end])),
    )
    writer.close()


def many_topics(log: Log) -> None:
    """One commit that touches 100 topics."""
    writer = Writer.open(log, CAPTURE)
    partitions = [writer.partition(log.catalog.create_topic(f"many{n}", capture=CAPTURE)) for n in range(100)]
    made = batch_of(300)
    writer.commit(None, {partition: writer.append(partition, [made]) for partition in partitions})
    percentiles(
        "append + commit, 100 topics",
        each(
            50,
            lambda: writer.commit(
                None, {partition: writer.append(partition, [made]) for partition in partitions}
            ),
        ),
    )
    writer.close()


def group_commits(log: Log) -> None:
    """One thread appends as fast as it can, the other commits back to back."""
    writer = Writer.open(log, CAPTURE)
    partition = writer.partition(log.catalog.create_topic("group", capture=CAPTURE))
    made, stop, count = batch_of(300), threading.Event(), 0

    def append() -> None:
        while not stop.is_set():
            writer.append(partition, [made])
            time.sleep(0.0001)

    thread = threading.Thread(target=append)
    thread.start()
    began = time.perf_counter()
    while time.perf_counter() - began < 3:
        end = partition.next_offset
        if end > partition.high_watermark:
            writer.commit(None, {partition: end})
            count += 1
    elapsed = time.perf_counter() - began
    stop.set()
    thread.join()
    show("group commits under steady appends", count / elapsed, "per s")
    show("  appends made durable by them", partition.high_watermark / elapsed, "per s")
    writer.close()


def wake(log: Log) -> None:
    """From the call of commit, and from its end, to a listener in another thread that has refreshed."""
    writer, reader, listener = Writer.open(log, CAPTURE), LogReader(log), Listener(log.data)
    partition = writer.partition(log.catalog.create_topic("wake", capture=CAPTURE))
    made = batch_of(300)
    heard, ready = [], threading.Event()
    rounds = 300

    def listen() -> None:
        while len(heard) < rounds:
            select.select([listener], [], [])
            listener.drain()
            if reader.refresh():
                heard.append(time.perf_counter())
                ready.set()

    thread = threading.Thread(target=listen)
    thread.start()
    whole, after = [], []
    for n in range(rounds):
        ready.clear()
        began = time.perf_counter()
        writer.commit(str(n), {partition: writer.append(partition, [made])})
        ended = time.perf_counter()
        ready.wait()
        whole.append(heard[-1] - began)
        after.append(max(0.0, heard[-1] - ended))
        time.sleep(0.002)
    thread.join()
    percentiles("append → listener awake and refreshed", whole)
    percentiles("  of that after commit returned", after)
    ringer = Ringer(log.data)
    percentiles("ringing one doorbell", each(2000, ringer.ring))
    ringer.close()
    listener.close()
    writer.close()


def bulk(log: Log) -> None:
    """Large batches appended and committed, 16 MiB to a commit."""
    writer = Writer.open(log, CAPTURE)
    partition = writer.partition(log.catalog.create_topic("bulk", capture=CAPTURE))
    payload = b"".join(encode_record(n, n, b"key", bytes(1000)) for n in range(250))
    made = [finish(payload, record_count=250, base_timestamp=0, max_timestamp=249) for _ in range(64)]
    size = sum(map(len, made))
    began, used = time.perf_counter(), time.process_time()
    for _ in range(32):
        writer.commit(None, {partition: writer.append(partition, made)})
    show("bulk append + commit", 32 * size / (time.perf_counter() - began) / 1e6, "MB/s")
    show("  per core-s", 32 * size / (time.process_time() - used) / 1e6, "MB/s")
    writer.close()
    fields = {"record_count": 250, "base_timestamp": 0, "max_timestamp": 249}
    for codec in Codec:
        seconds = sum(each(100, partial(finish, payload, codec=codec, **fields)))
        show(f"finish, {codec.name.lower()}", 100 * len(payload) / seconds / 1e6, "MB/s")


def reads(log: Log) -> None:
    """Slices of a log of many small batches: one after the other, and anywhere."""
    writer = Writer.open(log, CAPTURE, segment_bytes=64 << 20)
    partition = writer.partition(log.catalog.create_topic("reads", capture=CAPTURE))
    made = [batch_of(300) for _ in range(1000)]
    for _ in range(1000):
        writer.append(partition, made)
    writer.commit(None, {partition: partition.next_offset})
    show("log to read: batches of 380 B, 6 segments", partition.high_watermark, "batches")
    writer.close()
    for size, name in ((1024, "1 KiB"), (1 << 20, "1 MiB"), (50 << 20, "50 MiB")):
        read_slices(LogReader(log).partition(partition.partition_id), size, name, len(made[0]))
    percentiles("protocol.records.read_header", each(20000, lambda: read_header(made[0])))


def read_slices(partition: PartitionReader, size: int, name: str, batch_bytes: int) -> None:
    """One after the other, always the same, and anywhere."""
    count = 20_000 if size == 1024 else 300
    rng = random.Random(1)
    offset, taken = 0, []
    for _ in range(count):
        began = time.perf_counter()
        view = partition.read(offset, size)
        taken.append(time.perf_counter() - began)
        assert view is not None
        offset += len(view) // batch_bytes
        if offset >= partition.high_watermark:
            offset = 0
    percentiles(f"read {name}, one after the other", taken)
    same = rng.randrange(partition.high_watermark // 2)
    percentiles(f"read {name}, the same offset", each(count, lambda: partition.read(same, size)))
    anywhere = iter([rng.randrange(partition.high_watermark) for _ in range(count)])
    percentiles(f"read {name}, anywhere", each(count, lambda: partition.read(next(anywhere), size)))


def refreshes(log: Log) -> None:
    """What a reader pays for learning of a commit, with 10,000 topics there."""
    with log.catalog.database.write() as connection:
        for n in range(10_000):
            topic_id = n.to_bytes(16)
            connection.execute(
                "INSERT INTO topics VALUES (?, ?, 'other', '{}', 99999)", (topic_id, f"topic-{n}")
            )
            connection.execute(
                "INSERT INTO partitions (topic_id, partition_index, leader_epoch, log_start_offset, "
                "high_watermark, segment_base_offset, segment_bytes, change) VALUES (?, 0, 0, 0, 0, 0, 0, 1)",
                (topic_id,),
            )
        connection.execute("UPDATE state SET topology_version = 99999")
    began = time.perf_counter()
    reader = LogReader(log)
    show("10,000 topics: open a reader", (time.perf_counter() - began) * 1e3, "ms")
    percentiles("10,000 topics: refresh, nothing new", each(3000, reader.refresh))
    row = log.catalog.topic("commits").partitions[0]
    epoch = log.catalog.take_over(CAPTURE).epoch
    taken = []
    for n in range(200):
        mark = Watermark(row.partition_id, row.high_watermark, row.segment_base_offset, row.segment_bytes)
        log.catalog.commit(CAPTURE, epoch, str(n), [mark])
        taken += each(1, reader.refresh)
    percentiles("10,000 topics: refresh, one moved", taken)
    percentiles(
        "put_status", each(500, lambda: log.catalog.put_status(CAPTURE, {"phase": "streaming", "lag": 1}))
    )
    began = time.perf_counter()
    writer = Writer.open(log, "other")
    show("10,000 empty topics: open their writer", (time.perf_counter() - began) * 1e3, "ms")
    writer.close()


if __name__ == "__main__":
    main()
