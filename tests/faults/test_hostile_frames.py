"""Garbage, oversized and truncated frames, unknown APIs and versions on the real gateway, while others read.

A broken connection is closed and logged once; nothing else notices.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import consume, shop
from tests.support.live import LiveShop
from tests.support.postgres import PostgresServer

ApiVersionsBody = bytes
UNSUPPORTED_VERSION = 35


@pytest.fixture(scope="module")
def live(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveShop]:
    dsn = postgres.create_database()
    shop.create(dsn)
    with LiveShop(dsn, tmp_path_factory.mktemp("hostile") / "data", before=30) as running:
        yield running
    postgres.drop_database(dsn)


@pytest.fixture(autouse=True)
def others_read_on(live: LiveShop) -> Iterator[None]:
    """A consumer reads throughout, and reads what is written after the attack too."""
    with consume.Reader(live.service.kafka, live.topics) as reader:
        gateway = live.service.pids("gateway")
        yield
        live.workload.run(5)
        mark = live.workload.mark()
        reader.wait_for(live.service.topic("ledger"), mark.encode())
        assert reader.errors == []
        assert live.service.pids("gateway") == gateway, "the gateway was restarted"
        log = live.service.log()
        assert "Traceback" not in log, log[-3000:]


def connect(live: LiveShop) -> socket.socket:
    host, port = live.service.kafka.split(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def header(api_key: int, version: int, correlation_id: int = 7) -> bytes:
    return struct.pack(">hhih", api_key, version, correlation_id, -1)


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def received(connection: socket.socket) -> bytes:
    """Everything until the other side closes; it must close, not hang."""
    found = b""
    try:
        while data := connection.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    return found


def answer(connection: socket.socket) -> bytes:
    """One answer's payload."""
    size = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))[0]
    return connection.recv(size, socket.MSG_WAITALL)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300), id="tls"),
        pytest.param(struct.pack(">i", -1) + b"xxxx", id="negative-length"),
        pytest.param(struct.pack(">i", 2**31 - 1) + b"xxxx", id="two-gigabytes"),
        pytest.param(frame(b""), id="empty-frame"),
        pytest.param(frame(b"\x00"), id="one-byte"),
        pytest.param(frame(b"\x00\x03\x00\x0c\x00\x00"), id="cut-in-the-header"),
        pytest.param(frame(header(3, 12)), id="no-body"),
        pytest.param(frame(header(1, 12) + b"\x00" + b"\xff" * 40), id="fetch-of-ff"),
        pytest.param(frame(header(1, 4) + b"\x00" * 17 + b"\x7f\xff\xff\xff"), id="two-billion-topics"),
        pytest.param(frame(struct.pack(">hhih", 3, 1, 7, 30000) + b"name"), id="client-id-beyond-the-frame"),
    ],
)
def test_a_connection_that_makes_no_sense_is_closed(live: LiveShop, data: bytes) -> None:
    with connect(live) as connection:
        connection.sendall(data)
        assert received(connection) == b""


def test_random_bytes(live: LiveShop) -> None:
    chance = random.Random(1)
    for _ in range(150):
        with connect(live) as connection:
            payload = chance.randbytes(chance.randint(0, 300))
            connection.sendall(frame(payload) if chance.random() < 0.7 else payload)
            connection.shutdown(socket.SHUT_WR)
            received(connection)


def test_flipped_requests(live: LiveShop) -> None:
    """Good requests with a byte changed: an answer or a closed connection, never a hang or a crash."""
    chance = random.Random(2)
    topic = live.topics[0].encode()
    metadata = header(3, 1) + struct.pack(">ih", 1, len(topic)) + topic
    partition = struct.pack(">iqi", 0, 0, 1 << 20)
    fetch = header(1, 4) + struct.pack(">iiiib", -1, 10, 1, 1 << 20, 0)
    fetch += struct.pack(">ih", 1, len(topic)) + topic + struct.pack(">i", 1) + partition
    offsets = header(2, 1) + struct.pack(">iih", -1, 1, len(topic)) + topic + struct.pack(">iiq", 1, 0, -1)
    for request in (metadata, fetch, offsets):
        for _ in range(60):
            broken = bytearray(request)
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
            with connect(live) as connection:
                connection.sendall(frame(bytes(broken)))
                connection.shutdown(socket.SHUT_WR)
                received(connection)


def test_a_frame_that_never_ends(live: LiveShop) -> None:
    """Half a request and silence: others are served meanwhile, and the end of the peer ends it."""
    with connect(live) as connection:
        connection.sendall(struct.pack(">i", 5000) + header(3, 1))
        assert consume.topics(live.service.kafka, live.service.prefix)
        connection.shutdown(socket.SHUT_WR)
        assert received(connection) == b""


def test_a_peer_that_goes_away_in_the_middle_of_an_answer(live: LiveShop) -> None:
    topic = live.service.topic("ledger").encode()
    fetch = header(1, 4) + struct.pack(">iiiib", -1, 500, 1, 1 << 20, 0)
    fetch += struct.pack(">ih", 1, len(topic)) + topic + struct.pack(">iiqi", 1, 0, 0, 1 << 20)
    for _ in range(20):
        connection = connect(live)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(frame(fetch) * 20)
        connection.recv(10)
        connection.close()


@pytest.mark.parametrize("api_key", [4, 71, 999, -5, 32767])
def test_an_unknown_api_is_refused(live: LiveShop, api_key: int) -> None:
    with connect(live) as connection:
        connection.sendall(frame(header(api_key, 0) + b"\x00" * 8))
        assert received(connection) == b""


def test_an_unknown_version_is_refused(live: LiveShop) -> None:
    with connect(live) as connection:
        connection.sendall(frame(header(1, 99) + b"\x00" * 30))
        assert received(connection) == b""


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_an_unknown_version_of_api_versions_gets_the_range(live: LiveShop, version: int) -> None:
    """KIP-511: error 35 in a body of version 0, and the connection lives on."""
    with connect(live) as connection:
        connection.sendall(frame(header(18, version) + b"\x00\x02a\x02b\x00"))
        correlation_id, error, count = struct.unpack(">ihi", answer(connection)[:10])
        assert (correlation_id, error) == (7, UNSUPPORTED_VERSION)
        assert count >= 1
        connection.sendall(frame(header(18, 0, 8)))
        assert struct.unpack(">ih", answer(connection)[:6]) == (8, 0)


def test_hundreds_of_connections_at_once(live: LiveShop) -> None:
    connections = [connect(live) for _ in range(300)]
    try:
        begun = time.monotonic()
        for number, connection in enumerate(connections):
            connection.sendall(frame(header(18, 0, number)))
        for number, connection in enumerate(connections):
            assert struct.unpack(">i", answer(connection)[:4])[0] == number
        assert time.monotonic() - begun < 5
    finally:
        for connection in connections:
            connection.close()


def test_the_log_names_the_peer_but_no_bytes(live: LiveShop, tmp_path: Path) -> None:
    secret = b"s3cr3t-token-of-somebody"
    with connect(live) as connection:
        connection.sendall(frame(secret * 3))
        received(connection)
    assert secret.decode() not in live.service.log()
