"""Both ways of sending a large range give the same bytes, and the cheaper one is found out and kept to."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from capture.log.file_range import FileRange, SegmentFile
from gateway.broker import sending
from gateway.broker.sending import PIECE_BYTES, Sender, SendingCosts

SIZE = 3 * PIECE_BYTES + 12_345


class OneWay(SendingCosts):
    def __init__(self, by_sendfile: bool) -> None:
        super().__init__()
        self.by_sendfile = by_sendfile

    def next_way(self) -> tuple[bool, bool]:
        return self.by_sendfile, True


@pytest.fixture
def file_range(tmp_path: Path) -> FileRange:
    path = tmp_path / "segment"
    content = bytes(range(256)) * (SIZE // 256 + 1)
    path.write_bytes(b"before" + content[:SIZE] + b"after")
    return FileRange(SegmentFile(path), 6, memoryview(content)[:SIZE], lambda begin, end: None)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
    accepted.setblocking(False)
    with client, accepted:
        yield accepted, client


def sent(
    pair: tuple[socket.socket, socket.socket], costs: SendingCosts, parts: list[Any]
) -> tuple[bytes, list[str]]:
    """What a reader gets, and what the sender called meanwhile."""
    ours, theirs = pair
    received = bytearray()
    total = sum(map(len, parts))

    def read() -> None:
        while len(received) < total and (data := theirs.recv(1 << 16)):
            received.extend(data)

    async def send() -> list[str]:
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
        calls: list[str] = []
        sender = Sender(
            transport,
            costs,
            paused=lambda: calls.append("paused"),
            resumed=lambda: calls.append("resumed"),
            failed=lambda: calls.append("failed"),
        )
        sender.send(parts)
        assert sender.busy
        assert sender.unsent > 0
        reader = threading.Thread(target=read)
        reader.start()
        await asyncio.get_running_loop().run_in_executor(None, reader.join)
        sender.close()
        transport.close()
        return calls

    loop = uvloop.new_event_loop()
    try:
        calls = loop.run_until_complete(send())
    finally:
        loop.close()
    return bytes(received), calls


@pytest.mark.parametrize("by_sendfile", [True, False])
def test_every_byte_arrives_in_order(
    pair: tuple[socket.socket, socket.socket], file_range: FileRange, by_sendfile: bool
) -> None:
    costs = OneWay(by_sendfile)
    parts = [b"head", file_range, b"middle" * 10_000, file_range, b"tail"]
    received, calls = sent(pair, costs, parts)
    whole = bytes(file_range.view)
    assert received == b"head" + whole + b"middle" * 10_000 + whole + b"tail"
    assert calls == ["paused", "resumed"]
    assert costs._ns_per_byte[by_sendfile] > 0


def test_a_file_that_ends_too_early_ends_the_connection(
    pair: tuple[socket.socket, socket.socket], file_range: FileRange, tmp_path: Path
) -> None:
    (tmp_path / "segment").write_bytes(b"short")

    async def send() -> list[str]:
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=pair[0])
        calls: list[str] = []
        sender = Sender(
            transport,
            OneWay(True),
            paused=lambda: calls.append("paused"),
            resumed=lambda: calls.append("resumed"),
            failed=lambda: calls.append("failed"),
        )
        sender.send([b"head", file_range])
        assert not sender.busy
        transport.close()
        return calls

    loop = uvloop.new_event_loop()
    try:
        assert loop.run_until_complete(send()) == ["failed"]
    finally:
        loop.close()


def test_the_cheaper_way_is_taken_and_the_other_tried_now_and_then() -> None:
    costs = SendingCosts()
    price = {True: 300, False: 200}
    taken = []
    for number in range(10 * SendingCosts.TRIAL_INTERVAL):
        if number == 5 * SendingCosts.TRIAL_INTERVAL:
            price = {True: 100, False: 200}
        by_sendfile, measured = costs.next_way()
        taken.append(by_sendfile)
        if measured:
            costs.note(by_sendfile, price[by_sendfile] * 1000, 1000)
    first, second = taken[: len(taken) // 2], taken[len(taken) // 2 :]
    assert 0 < sum(first) <= 2 * 5
    assert sum(second[-2 * SendingCosts.TRIAL_INTERVAL :]) >= 2 * (SendingCosts.TRIAL_INTERVAL - 1)
    assert sending.PIECE_BYTES > 1 << 20
