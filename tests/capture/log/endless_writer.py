"""A writer that is to be killed: appends and commits without end, by two threads, in several topics at once.

Record n of a topic holds the topic's name and n, and the position of a commit holds every watermark that it
moved, so that a reader can tell whether anything was lost, doubled or torn apart.

    python -m tests.capture.log.endless_writer DATA SEED
"""

from __future__ import annotations

import json
import random
import sys
import threading
from pathlib import Path

from capture.log import Log, PartitionWriter, Writer
from protocol.records import Codec, Record, build
from tests.capture.log import logs

TOPICS = ("alpha", "beta", "gamma")


def main(data: Path, seed: int) -> None:
    """Write until killed; print a line once open and one after each commit."""
    log = Log.open(data)
    writer = Writer.open(log, logs.CAPTURE, segment_bytes=20_000, index_interval_bytes=500)
    rng = random.Random(seed)
    partitions = [writer.partition(logs.topic(log, name)) for name in TOPICS]
    ends = {partition.topic: partition.next_offset for partition in partitions}
    print(json.dumps(writer.position), flush=True)
    turn = threading.Condition()
    waiting: dict[PartitionWriter, int] = {}

    def commit() -> None:
        while True:
            with turn:
                turn.wait_for(lambda: waiting)
                now = dict(waiting)
                waiting.clear()
            for partition, end in now.items():
                ends[partition.topic] = end
            writer.commit(json.dumps(ends), now)
            print(json.dumps(ends), flush=True)

    threading.Thread(target=commit, daemon=True).start()
    while True:
        moved = {}
        for partition in rng.sample(partitions, rng.randrange(1, 4)):
            made, offset = [], partition.next_offset
            for _ in range(rng.randrange(1, 4)):
                count = rng.randrange(1, 30)
                made.append(
                    build(
                        [
                            Record(
                                n,
                                logs.START_MS + offset + n,
                                None,
                                f"{partition.topic} {offset + n}".encode(),
                            )
                            for n in range(count)
                        ],
                        codec=rng.choice(list(Codec)),
                    )
                )
                offset += count
            moved[partition] = writer.append(partition, made)
        with turn:
            waiting.update(moved)
            turn.notify()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
