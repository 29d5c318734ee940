"""The gateway under load: bytes and requests per server core-second, and how fast a commit wakes readers.

CPU is that of the server process alone. The readers discard in C, and all servers serve the same file in
turn, several times over. The best round of each counts: whatever else the machine does only slows one down.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from capture.log import Log, PartitionWriter, Topic, Writer
from protocol.header import request_frame
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.records import Record, build
from tests.bench.figures import at_least, at_most, percentile

FIGURES = ("fetch_1mib", "fetch_50mib", "fetch_small", "longpoll_wake_p99", "longpoll_wake_p99_100")

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build" / "bench"

MIB = 1024 * 1024
LARGE_BATCH = 64 * 1024
LARGE_LOG = 64 * MIB
HOT_REGION = 48 * MIB
"""What is read over and over, as the end of a log is by its consumers."""
SMALL_RESPONSE = 1024
SMALL_BATCHES = 4096
SMALL_CONNECTIONS = 32
FETCH_VERSION = 12
ROUNDS = 12
SECONDS = 0.6
WAKES = {1: 400, 100: 60}
HEADER_BYTES = 80
"""Of a C loop's answer, as many as a Fetch's header has."""


@dataclass
class Load:
    """Who asks what of every server."""

    figure: str
    requests: Path
    connections: int
    chunk: int
    region: int
    file: Path


def run() -> list[dict[str, Any]]:
    """Measure all figures."""
    compile_programs()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        data = Path(folder) / "data"
        log = Log.open(data, create=True)
        writer = Writer.open(log, "bench")
        large = fill(log, writer, "bench.large", LARGE_BATCH, LARGE_LOG // LARGE_BATCH)
        small = fill(log, writer, "bench.small", SMALL_RESPONSE - HEADER_BYTES, SMALL_BATCHES)
        waited = log.catalog.create_topic("bench.waited", capture="bench")
        with gateway(data) as (process, port):
            results = [
                throughput(load, process.pid, port)
                for load in (
                    load_of(data, "fetch_1mib", large, MIB, LARGE_BATCH),
                    load_of(data, "fetch_50mib", large, 50 * MIB, LARGE_BATCH),
                    load_of(data, "fetch_small", small, 1, SMALL_RESPONSE - HEADER_BYTES),
                )
            ]
            results += wakes(writer, writer.partition(waited), port)
        writer.close()
        log.close()
    return results


def compile_programs() -> None:
    """Build the C programs of this folder."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("the reference servers need a C compiler: install gcc or clang")
    BUILD.mkdir(parents=True, exist_ok=True)
    for source in sorted((HERE / "c").glob("*.c")):
        subprocess.run([compiler, "-O2", "-o", BUILD / source.stem, source], check=True)


def fill(log: Log, writer: Writer, name: str, batch_bytes: int, count: int) -> Topic:
    """A topic of `count` batches of exactly `batch_bytes` each, of one record."""
    topic = log.catalog.create_topic(name, capture="bench")
    partition = writer.partition(topic)
    spare = len(build([Record(0, 1, None, b"", ())]))
    value = bytes(range(256)) * (batch_bytes // 256 + 1)
    size = batch_bytes - spare
    while len(batch := build([Record(0, 1, None, value[:size], ())])) > batch_bytes:
        size -= len(batch) - batch_bytes
    for _ in range(count):
        end = writer.append(partition, [bytes(batch)])
    writer.commit(None, {partition: end})
    found = log.catalog.topic(name)
    assert found is not None
    return found


def load_of(data: Path, figure: str, topic: Topic, chunk: int, batch_bytes: int) -> Load:
    """Requests that go through the topic from its begin to its end, `chunk` bytes each."""
    batches = max(1, chunk // batch_bytes)
    region = max(HOT_REGION, chunk)
    whole = min(topic.partitions[0].high_watermark, region // batch_bytes)
    offsets = range(0, whole - batches + 1, batches)
    requests = data.parent / f"{figure}.requests"
    requests.write_bytes(b"".join(frame(topic.name, offset, chunk, wait_ms=500) for offset in offsets))
    [file] = (data / "topics" / f"{topic.name}-0").glob("*.log")
    connections = SMALL_CONNECTIONS if figure == "fetch_small" else 1
    return Load(figure, requests, connections, max(chunk, batch_bytes), whole * batch_bytes, file)


def frame(topic: str, offset: int, max_bytes: int, *, wait_ms: int) -> bytes:
    """A Fetch of one partition, as a consumer sends it."""
    partition = FetchPartition(
        partition=0, current_leader_epoch=0, fetch_offset=offset, partition_max_bytes=max_bytes
    )
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=52_428_800,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    return b"".join(request_frame(request, FETCH_VERSION, 1, "bench"))


@contextmanager
def gateway(data: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A gateway process over `data`, and its Kafka port."""
    addresses = [
        argument for name in ("kafka", "registry", "admin") for argument in (f"--{name}", "127.0.0.1:0")
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway", "--data", str(data), *addresses],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the gateway did not start")
        yield process, int(json.loads(line)["kafka"].rpartition(":")[2])
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def c_loop(mode: str, load: Load) -> Iterator[tuple[int, int]]:
    """A C server, and its port."""
    command = [BUILD / "loop_server", mode, load.file, str(load.region), str(load.chunk), str(HEADER_BYTES)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(10)


def throughput(load: Load, gateway_pid: int, gateway_port: int) -> dict[str, Any]:
    """The gateway and the C loops in turn."""
    count_bytes = load.figure != "fetch_small"
    measured: dict[str, list[float]] = {"gateway": [], "mmap": [], "sendfile": []}
    with c_loop("mmap", load) as mapped, c_loop("sendfile", load) as sent:
        servers = {"gateway": (gateway_pid, gateway_port), "mmap": mapped, "sendfile": sent}
        for _ in range(ROUNDS):
            for name, (pid, port) in servers.items():
                responses, received, cpu_s = read(load, pid, port)
                measured[name].append((received / 1e9 if count_bytes else responses) / cpu_s)
    best = {name: max(values) for name, values in measured.items()}
    print(load.figure, {name: float(f"{value:.4g}") for name, value in best.items()}, file=sys.stderr)
    return at_least(
        load.figure,
        best["gateway"],
        "GB/core-s" if count_bytes else "requests/core-s",
        target=0.9 if count_bytes else 0.4,
        reference=max(best["mmap"], best["sendfile"]),
    )


def read(load: Load, pid: int, port: int) -> tuple[int, int, float]:
    """Read for a second: responses, bytes, and CPU seconds of the server.

    The server has one core and the reader another. Left to itself the kernel puts both on one core at times,
    where a copy costs half as much and a wake-up twice.
    """
    everywhere = os.sched_getaffinity(0)
    cores = sorted(everywhere)
    os.sched_setaffinity(pid, {cores[0]})
    os.sched_setaffinity(0, {cores[-1]})
    try:
        before = cpu_seconds(pid)
        done = subprocess.run(
            [BUILD / "discard_client", str(port), load.requests, str(load.connections), str(SECONDS)],
            check=True,
            capture_output=True,
            text=True,
        )
        used_s = cpu_seconds(pid) - before
    finally:
        os.sched_setaffinity(0, everywhere)
        os.sched_setaffinity(pid, everywhere)
    responses, received, _ = done.stdout.split()
    return int(responses), int(received), used_s


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, user and system; by the scheduler's own account where there is one."""
    try:
        accounts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    except OSError:
        accounts = []
    if accounts:
        return sum(int(account.split()[0]) for account in accounts) / 1e9
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


class _Bell:
    """Rings, and remembers when: a commit is visible to readers from then on."""

    def __init__(self, ring: Callable[[], int]) -> None:
        self._ring = ring
        self.rung_ns = 0

    def ring(self) -> int:
        self.rung_ns = time.monotonic_ns()
        return self._ring()

    def close(self) -> None:
        """Nothing of its own."""


def wakes(writer: Writer, partition: PartitionWriter, port: int) -> list[dict[str, Any]]:
    """From when a commit is in the catalog to the first bytes of each waiting reader's answer."""
    bell = _Bell(writer._ringer.ring)
    original, writer._ringer = writer._ringer, bell  # type: ignore[assignment]  # it rings and tells when
    results = []
    for connections, rounds in WAKES.items():
        delays = _wakes(writer, partition, bell, port, connections, rounds)
        p50, p99 = percentile(delays, 0.5), percentile(delays, 0.99)
        print(f"longpoll, {connections} waiting: p50 {p50:.3f} ms, p99 {p99:.3f} ms", file=sys.stderr)
        results.append((connections, p99))
    writer._ringer = original
    return [
        at_most(
            "longpoll_wake_p99" if connections == 1 else f"longpoll_wake_p99_{connections}",
            p99,
            "ms",
            target=1,
        )
        for connections, p99 in results
    ]


def _wakes(
    writer: Writer, partition: PartitionWriter, bell: _Bell, port: int, connections: int, rounds: int
) -> list[float]:
    batch = build([Record(0, 1, b"key", b"x" * 300, ())])
    client = subprocess.Popen(
        [BUILD / "waiting_client", str(port), str(connections)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert client.stdin is not None
    assert client.stdout is not None
    delays: list[float] = []
    for _ in range(rounds):
        client.stdin.write(frame("bench.waited", partition.next_offset, MIB, wait_ms=30_000))
        client.stdin.flush()
        assert client.stdout.readline() == b"sent\n"
        time.sleep(0.004 + connections * 0.0001)
        writer.commit(None, {partition: writer.append(partition, [bytes(batch)])})
        arrived = [int(text) for text in client.stdout.readline().split()]
        delays += [(at - bell.rung_ns) / 1e6 for at in arrived]
    client.stdin.close()
    client.wait(10)
    return delays


if __name__ == "__main__":
    for result in run():
        print(json.dumps(result))
