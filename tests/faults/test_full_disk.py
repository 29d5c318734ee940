"""A disk that runs full: a clear error that says what to do, all that was committed is served on, and when
there is space again the capture goes on by itself; nothing is lost and nothing doubled.
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.support import consume, shop
from tests.support.fold import AvroDecoder, differences, fold
from tests.support.service import Service

RESTARTS = {
    "TIDEGATE_SUPERVISOR__RESTART_BACKOFF_MS": "300",
    "TIDEGATE_SUPERVISOR__RESTART_BACKOFF_MAX_MS": "500",
}
ROWS = 12_000  # of about a kilobyte


@contextmanager
def small_file_system(folder: Path) -> Iterator[Callable[[], int]]:
    """A tmpfs of eight megabytes; the function that it yields enlarges it."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield lambda: subprocess.check_call(["mount", "-o", "remount,size=256m", str(folder)])
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(database: str) -> None:
    with psycopg.connect(database) as connection:
        for first in range(0, ROWS, 500):
            with connection.transaction():
                rows = (
                    "SELECT g::text, ARRAY[repeat(md5(g::text), 30)] FROM generate_series(%s::int, %s::int) g"
                )
                numbers = [first + 1, first + 500]
                connection.execute(f"INSERT INTO customers (email, tags) {rows}", numbers)


def complaint(service: Service) -> str:
    """What the service said when the capture could not go on."""
    assert service.process is not None
    event = service.process.event("ended", timeout_s=60)
    assert event["worker"] == service.prefix
    assert event["retry_in_s"] is not None, f"it must come back by itself: {service.process.said()}"
    text: str = event["error"]
    return text


def check(service: Service, database: str, reader: consume.Reader) -> None:
    """Everything arrived, once, also at the consumer that read throughout."""
    with shop.Workload(database, seed=1, worker=9) as workload:
        mark = workload.mark()
    reader.wait_for(service.topic("ledger"), mark.encode(), timeout_s=90)
    topic = service.topic("customers")
    end = consume.ends(service.kafka, [topic])[topic]
    reader.wait(lambda got: len(got[topic]) >= end)
    assert consume.read(service.kafka, [topic])[topic] == reader.records[topic]
    folded = fold(reader.records[topic], AvroDecoder(service.registry_url))
    assert len(folded.rows) == ROWS + 20
    with psycopg.connect(database) as connection:
        assert differences(connection, "customers", folded.result()) == []


def begin(database: str) -> None:
    shop.create(database)
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO customers (email) SELECT g::text FROM generate_series(1, 20) g")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_file_system(database: str, tmp_path: Path) -> None:
    begin(database)
    folder = tmp_path / "small"
    errors = tmp_path / "stderr"
    with (
        small_file_system(folder) as enlarge,
        Service(database, folder / "data", environment=RESTARTS, errors=errors) as service,
    ):
        names = [service.topic("customers"), service.topic("ledger")]
        with consume.Reader(service.kafka, names) as reader:
            reader.wait(lambda got: len(got[names[0]]) >= 20)
            fill(database)
            text = complaint(service)
            assert "no space" in text.lower()
            assert "free space" in text.lower()
            assert str(folder) in text
            assert consume.read(service.kafka, names[:1]), "what was committed is served"
            enlarge()
            check(service, database, reader)


def test_a_file_size_limit(database: str, tmp_path: Path) -> None:
    """As any user can have it: the capture's files may not grow past three megabytes."""
    begin(database)
    with Service(database, tmp_path / "data", environment=RESTARTS) as service:
        names = [service.topic("customers"), service.topic("ledger")]
        with consume.Reader(service.kafka, names) as reader:
            reader.wait(lambda got: len(got[names[0]]) >= 20)
            (capture,) = service.pids("capture")
            psutil.Process(capture).rlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))
            fill(database)
            text = complaint(service)
            assert "too large" in text.lower()
            assert "quota" in text.lower()
            check(service, database, reader)
