"""From commit to consumer: latency and its price in CPU, memory while serving, the start, and doing nothing.

The reference of the latency is `pg_recvlogical` on the same server at the same load: the bytes as Postgres'
own tool receives them, before any of them is encoded, made durable or served.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from tests.bench.figures import at_most, percentile
from tests.support import consume
from tests.support.postgres import PostgresServer, bin_path
from tests.support.process import Process, tidegate
from tests.support.service import Service

FIGURES = (
    "commit_to_consumer_p50",
    "commit_to_consumer_p99",
    "commit_to_consumer_cpu",
    "rss_serving",
    "start_to_answer",
    "idle_cpu",
)

COMMITS_A_SECOND = 50
SECONDS = 20
WARM_UP = 100
IDLE_S = 15
STARTS = 5
TABLE = """CREATE TABLE readings (id bigint PRIMARY KEY, sensor text NOT NULL, celsius double precision,
    measured_at timestamptz NOT NULL DEFAULT clock_timestamp(), note varchar(40))"""


def run() -> list[dict[str, Any]]:
    """Measure on a server and a service of our own."""
    with (
        PostgresServer() as server,
        tempfile.TemporaryDirectory(prefix="tidegate-bench-", ignore_cleanup_errors=True) as folder,
    ):
        database = server.create_database()
        with psycopg.connect(database) as connection:
            connection.execute(TABLE)
        service = Service(database, Path(folder) / "data")
        service.start()
        try:
            topic = service.topic("readings")
            latencies, cpu = commit_to_consumer(service, database, topic)
            rss = sum(psutil.Process(pid).memory_info().rss for pid in workers(service))
            idle = idle_cpu(service, topic)
        finally:
            service.stop()
        starts = [start_to_answer(service, topic) for _ in range(STARTS)]
        reference = recvlogical(database, Path(folder))
    return [
        at_most(
            "commit_to_consumer_p50",
            percentile(latencies, 0.5) * 1000,
            "ms",
            target=2,
            reference=percentile(reference, 0.5) * 1000,
        ),
        at_most(
            "commit_to_consumer_p99",
            percentile(latencies, 0.99) * 1000,
            "ms",
            target=8,
            reference=percentile(reference, 0.99) * 1000,
        ),
        at_most("commit_to_consumer_cpu", cpu * 100, "% of a core", target=15),
        at_most("rss_serving", rss / 1e6, "MB", target=200),
        at_most("start_to_answer", percentile(starts, 0.5), "s", target=1),
        at_most("idle_cpu", idle * 100, "% of a core", target=1),
    ]


def workers(service: Service) -> list[int]:
    """The gateway and the capture."""
    return [*service.pids("gateway"), *service.pids("capture")]


def processes(service: Service) -> list[psutil.Process]:
    """All of ours, the supervisor too."""
    assert service.process is not None
    return [psutil.Process(service.process.pid), *service.process.children()]


def cpu_seconds(found: list[psutil.Process]) -> float:
    """CPU seconds that the processes have used."""
    times = [process.cpu_times() for process in found]
    return float(sum(used.user + used.system for used in times))


def write(database: str, count: int, committed: dict[int, float], first: int) -> None:
    """One-row transactions at a steady pace; notes when each commit had returned."""
    with psycopg.connect(database, autocommit=True) as connection:
        due = time.monotonic()
        for number in range(first, first + count):
            due += 1 / COMMITS_A_SECOND
            time.sleep(max(0.0, due - time.monotonic()))
            connection.execute(
                "INSERT INTO readings (id, sensor, celsius, note) VALUES (%s, 'north', 21.5, %s)",
                [number, f"token {number:08} end"],
            )
            committed[number] = time.monotonic()


def token(data: bytes) -> int | None:
    """The number of the row that the bytes tell of."""
    at = data.find(b"token ")
    return int(data[at + 6 : at + 14]) if at >= 0 else None


@contextlib.contextmanager
def receiving(bootstrap: str, topic: str, received: dict[int, float]) -> Iterator[None]:
    """A stock consumer in its defaults that notes when each row came."""
    consumer = Consumer(consume.configuration(bootstrap))
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    stop = threading.Event()

    def receive() -> None:
        while not stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and (value := message.value()) is not None:
                number = token(value)
                if number is not None:
                    received.setdefault(number, time.monotonic())

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)
        consumer.close()


def commit_to_consumer(service: Service, database: str, topic: str) -> tuple[list[float], float]:
    """Latencies in seconds, and the share of a core that all our processes used meanwhile."""
    wait_for_topic(service, topic)
    committed: dict[int, float] = {}
    received: dict[int, float] = {}
    with receiving(service.kafka, topic, received):
        time.sleep(1)
        write(database, WARM_UP, committed, 0)
        found = processes(service)
        begun, used = time.monotonic(), cpu_seconds(found)
        write(database, COMMITS_A_SECOND * SECONDS, committed, WARM_UP)
        cpu = (cpu_seconds(found) - used) / (time.monotonic() - begun)
        time.sleep(0.5)
    return measured(committed, received), cpu


def measured(committed: dict[int, float], received: dict[int, float]) -> list[float]:
    """From the commit's return to the receipt; a receipt that was even earlier counts as none."""
    counted = [number for number in committed if number >= WARM_UP]
    lost = [number for number in counted if number not in received]
    if lost:
        raise RuntimeError(f"{len(lost)} of {len(counted)} rows did not arrive")
    return [max(0.0, received[number] - committed[number]) for number in counted]


def recvlogical(database: str, folder: Path) -> list[float]:
    """The same rows as pg_recvlogical receives them."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("TRUNCATE readings")
        connection.execute("CREATE PUBLICATION reference FOR TABLE readings")
    command = [str(bin_path() / "pg_recvlogical"), "-d", database, "--slot", "reference"]
    subprocess.run([*command, "--create-slot", "-P", "pgoutput"], check=True)
    command += ["--start", "-f", "-", "-o", "proto_version=1", "-o", "publication_names=reference"]
    committed: dict[int, float] = {}
    received: dict[int, float] = {}
    with (folder / "recvlogical").open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
    assert process.stdout is not None
    descriptor = process.stdout.fileno()

    def receive() -> None:
        while data := os.read(descriptor, 65536):
            now = time.monotonic()
            for part in data.split(b"token ")[1:]:
                received.setdefault(int(part[:8]), now)

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    write(database, WARM_UP + COMMITS_A_SECOND * SECONDS // 2, committed, 0)
    time.sleep(0.5)
    process.terminate()
    process.wait(10)
    thread.join(10)
    process.stdout.close()
    subprocess.run([*command[:5], "--drop-slot"], check=True)
    return measured(committed, received)


def idle_cpu(service: Service, topic: str) -> float:
    """The share of a core that all our processes use while nothing happens and one consumer waits."""
    with receiving(service.kafka, topic, {}):
        time.sleep(2)
        found = processes(service)
        begun, used = time.monotonic(), cpu_seconds(found)
        time.sleep(IDLE_S)
        return (cpu_seconds(found) - used) / (time.monotonic() - begun)


def start_to_answer(service: Service, topic: str) -> float:
    """From the start of `tidegate serve` to the first answered Metadata that names the topic, in seconds."""
    command = tidegate("serve", "--json", "--postgres", service.dsn, "--data", str(service.data))
    command += ["--kafka", service.kafka, "--registry", service.registry, "--admin", service.admin]
    command += ["--set", f"slot.name={service.prefix}"]
    host, port = service.kafka.split(":")
    name = topic.encode()
    payload = struct.pack(">hhihih", 3, 1, 1, -1, 1, len(name)) + name
    begun = time.monotonic()
    with Process(command, errors=service.errors, environment=service.environment) as process:
        while time.monotonic() - begun < 30 and process.returncode is None:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as peer:
                peer.sendall(struct.pack(">i", len(payload)) + payload)
                size = struct.unpack(">i", peer.recv(4, socket.MSG_WAITALL))[0]
                if name in peer.recv(size, socket.MSG_WAITALL):
                    return time.monotonic() - begun
            time.sleep(0.005)
        raise RuntimeError(f"no answer: {process.said()}")


def wait_for_topic(service: Service, topic: str) -> None:
    """Until the capture has made the topic."""
    deadline = time.monotonic() + 30
    while topic not in consume.topics(service.kafka, service.prefix):
        if time.monotonic() > deadline:
            raise RuntimeError(f"topic {topic} did not appear")
        time.sleep(0.1)
