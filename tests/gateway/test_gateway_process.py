"""`python -m gateway`: its ready line, its end, and what it says when it cannot begin."""

import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from capture.log import Log, Writer
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.metadata import MetadataRequest
from protocol.records import Record, build
from tests.support.in_process import RawClient

TOPIC = "shop.public.orders"


@pytest.fixture
def data() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tidegate-test-") as folder:
        yield Path(folder) / "data"


def command(data: Path, **addresses: str) -> list[str]:
    given = {"kafka": "127.0.0.1:0", "registry": "127.0.0.1:0", "admin": "127.0.0.1:0", **addresses}
    options = [argument for name, at in given.items() for argument in (f"--{name}", at)]
    return [sys.executable, "-m", "gateway", "--data", str(data), *options]


@contextmanager
def running(data: Path, **addresses: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    process = subprocess.Popen(
        command(data, **addresses), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield process, json.loads(line)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(10)
        process.stdout.close()
        process.stderr.close()


def client(ready: dict[str, Any]) -> RawClient:
    host, _, port = ready["kafka"].rpartition(":")
    return RawClient((host, int(port)))


def commit(log: Log, writer: Writer, value: bytes) -> None:
    partition = writer.partition(log.catalog.create_topic(TOPIC, capture="test"))
    end = writer.append(partition, [build([Record(0, 1, None, value, ())])])
    writer.commit(None, {partition: end})


def fetch(offset: int, wait_ms: int) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[partition])]
    )


def test_it_says_where_it_answers_and_ends_within_a_second(data: Path) -> None:
    with running(data) as (process, ready):
        assert ready["ready"] is True
        assert all(
            re.fullmatch(r"127\.0\.0\.1:[1-9]\d*", ready[name]) for name in ("kafka", "registry", "admin")
        )
        with urllib.request.urlopen(f"http://{ready['admin']}/ready", timeout=10) as answer:
            assert answer.status == 200
        with urllib.request.urlopen(f"http://{ready['registry']}/subjects", timeout=10) as answer:
            assert json.load(answer) == []
        with one_record(data), client(ready) as waiting, client(ready) as idle:
            idle.ask(MetadataRequest(topics=None), 9)
            waiting.send(fetch(1, 60_000), 11)
            time.sleep(0.1)
            started = time.monotonic()
            process.terminate()
            assert waiting.receive().error_code == 0, "a parked fetch is answered"
            assert process.wait(10) == 0
            assert time.monotonic() - started < 1
            assert waiting.is_closed()
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
        assert [line["event"] for line in lines] == ["gateway ready", "gateway stopped"]


@contextmanager
def one_record(data: Path) -> Iterator[None]:
    log = Log.open(data, create=True)
    writer = Writer.open(log, "test")
    commit(log, writer, b"one")
    yield
    writer.close()
    log.close()


def test_two_gateways_serve_one_data_directory(data: Path) -> None:
    log = Log.open(data, create=True)
    writer = Writer.open(log, "test")
    commit(log, writer, b"one")
    with running(data) as (_, first), running(data) as (_, second):
        found = []
        with client(first) as one, client(second) as two:
            for asker in (one, two):
                answer = asker.ask(MetadataRequest(topics=None), 12)
                found.append((answer.cluster_id, [topic.topic_id for topic in answer.topics]))
                asker.send(fetch(1, 20_000), 11)
            assert found[0] == found[1]
            time.sleep(0.1)
            started = time.monotonic()
            commit(log, writer, b"two")
            for asker in (one, two):
                assert asker.receive().responses[0].partitions[0].high_watermark == 2
            assert time.monotonic() - started < 5
    writer.close()
    log.close()


def test_the_cluster_id_outlives_the_process(data: Path) -> None:
    ids = []
    for _ in range(2):
        with running(data) as (_, ready), client(ready) as asker:
            ids.append(asker.ask(MetadataRequest(topics=[]), 9).cluster_id)
    assert ids[0] == ids[1]
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", ids[0])


def test_clients_are_told_the_advertised_address(data: Path) -> None:
    with running(data, advertised="db.example.com:0") as (_, ready), client(ready) as asker:
        [broker] = asker.ask(MetadataRequest(topics=[]), 9).brokers
        assert (broker.host, broker.port) == ("db.example.com", asker.socket.getpeername()[1])
    with running(data, advertised="db.example.com:19092") as (_, ready), client(ready) as asker:
        [broker] = asker.ask(MetadataRequest(topics=[]), 9).brokers
        assert (broker.host, broker.port) == ("db.example.com", 19092)


@pytest.mark.parametrize("name", ["kafka", "registry", "admin"])
def test_an_address_in_use_is_a_clear_error(data: Path, name: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(command(data, **{name: address}), capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert done.stdout == ""
    line = json.loads(done.stderr.splitlines()[-1])
    assert line["event"] == "the gateway cannot start"
    assert address in line["error"]
    assert f"--{name}" in line["error"]


def test_a_data_directory_that_is_none_is_a_clear_error(data: Path) -> None:
    data.write_text("a file")
    done = subprocess.run(command(data), capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert str(data) in json.loads(done.stderr.splitlines()[-1])["error"]


def test_a_newer_log_is_a_clear_error(data: Path) -> None:
    Log.open(data, create=True).close()
    with sqlite3.connect(data / "catalog.sqlite") as connection:
        connection.execute("UPDATE format SET version = 99")
    connection.close()
    done = subprocess.run(command(data), capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert "newer version" in json.loads(done.stderr.splitlines()[-1])["error"]


@pytest.mark.parametrize("arguments", [["--kafka", "nowhere"], ["--kafka", "127.0.0.1:99999"], ["--unheard"]])
def test_wrong_arguments(data: Path, arguments: list[str]) -> None:
    done = subprocess.run([*command(data), *arguments], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert arguments[0] in done.stderr


def test_every_interface_needs_an_advertised_address(data: Path) -> None:
    done = subprocess.run(command(data, kafka="0.0.0.0:0"), capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "advertised" in done.stderr


def test_an_interrupt_ends_it_too(data: Path) -> None:
    with running(data) as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


def test_it_starts_within_a_second(data: Path) -> None:
    """The target is a second; a loaded machine is given more."""
    started = time.monotonic()
    with running(data) as (_, ready), client(ready) as asker:
        asker.ask(MetadataRequest(topics=[]), 9)
        assert time.monotonic() - started < 10
