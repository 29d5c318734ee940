"""How an answer leaves: small ones through the transport, large ranges of the log from the page cache.

There are two ways for a range: the kernel's sendfile, and a send from the mapping. Which costs less depends
on kernel, network card and machine (on loopback alone it was seen to be either, by a third), so both are
measured as they go.

Invariants: while parts of an answer wait here (`busy`), nothing else is written to the transport; and parts
are begun only when nothing is unsent in the transport. So the two never mix within the stream.
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from time import thread_time_ns
from typing import Final

from capture.log import FileRange
from protocol.message import Buffer

PIECE_BYTES: Final = 2 * 1024 * 1024
"""At most this much in one call, so that a fast reader of much does not hold up the others."""

Part = Buffer | FileRange


class SendingCosts:
    """What a byte cost of late by either way, in CPU time; shared by all connections."""

    TRIAL_INTERVAL: Final = 32
    """Of so many answers one is measured, and another is sent by the dearer way and measured."""
    _WEIGHT: Final = 0.2

    def __init__(self) -> None:
        self.by_sendfile = True
        """The cheaper way for now: sendfile, or else from the mapping."""
        self._ns_per_byte = {True: 0.0, False: 0.0}
        self._answers = 0

    def next_way(self) -> tuple[bool, bool]:
        """How the next answer is to be sent: by sendfile or not, and whether its cost is to be noted."""
        self._answers += 1
        turn = self._answers % self.TRIAL_INTERVAL
        if turn not in (1, 2):
            return self.by_sendfile, False
        return (self.by_sendfile if turn == 1 else not self.by_sendfile), True

    def note(self, by_sendfile: bool, cost_ns: int, sent_bytes: int) -> None:
        """Take into account what an answer cost."""
        known, found = self._ns_per_byte[by_sendfile], cost_ns / sent_bytes
        self._ns_per_byte[by_sendfile] = known + self._WEIGHT * (found - known) if known else found
        if all(self._ns_per_byte.values()):
            self.by_sendfile = self._ns_per_byte[True] <= self._ns_per_byte[False]


class Sender:
    """The writing half of one connection."""

    def __init__(
        self,
        transport: asyncio.Transport,
        costs: SendingCosts,
        *,
        paused: Callable[[], None],
        resumed: Callable[[], None],
        failed: Callable[[], None],
    ) -> None:
        """`paused` and `resumed` are called as a transport calls a protocol's; `failed` in the middle."""
        self._transport = transport
        self._costs = costs
        self._paused = paused
        self._resumed = resumed
        self._failed = failed
        self._parts: deque[Part] = deque()
        self._sent_of_first = 0
        self._by_sendfile = True
        self._measured = False
        self._bytes = 0
        self._cost_ns = 0
        self._socket: socket.socket | None = None
        self._waiting = False

    @property
    def busy(self) -> bool:
        """Whether parts wait for the client to read."""
        return bool(self._parts)

    @property
    def unsent(self) -> int:
        """Bytes of these parts."""
        return sum(map(len, self._parts)) - self._sent_of_first

    def send(self, parts: Sequence[Part]) -> None:
        """Send buffers and file ranges in their order. Not to be called while `busy`."""
        if FileRange not in map(type, parts) or self._transport.get_write_buffer_size():
            self._transport.writelines([_in_memory(part) for part in parts])
            return
        self._by_sendfile, self._measured = self._costs.next_way()
        self._parts.extend(parts if self._by_sendfile else map(_in_memory, parts))
        if self._measured:
            self._bytes = sum(map(len, parts))
            self._cost_ns = 0
        self._push()

    def close(self) -> None:
        """Forget what is unsent: the connection is gone."""
        self._parts.clear()
        self._wait(False)
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _push(self) -> None:
        """Send what can be sent now; wait for the client to read if that is not all."""
        began_ns = thread_time_ns() if self._measured else 0
        try:
            if self._by_sendfile:
                done = self._send_by_sendfile(self._raw_socket())
            else:
                done = self._send_from_memory(self._raw_socket())
        except OSError:
            # The client is gone, or the file is unreadable: half an answer cannot be taken back.
            self.close()
            self._failed()
            return
        if self._measured:
            self._cost_ns += thread_time_ns() - began_ns
        if done:
            if self._measured:
                self._costs.note(self._by_sendfile, self._cost_ns, self._bytes)
            if self._waiting:
                self._wait(False)
                self._resumed()
        elif not self._waiting:
            self._wait(True)
            self._paused()

    def _send_by_sendfile(self, sock: socket.socket) -> bool:
        """Whether all is sent. TCP_CORK keeps what is before and after the records in the same segments."""
        if not self._waiting:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        parts, already = self._parts, self._sent_of_first
        try:
            while parts:
                part = parts[0]
                if isinstance(part, FileRange):
                    left = len(part) - already
                    sent = _send_range(sock.fileno(), part, already, left)
                else:
                    left = len(part) - already
                    sent = sock.send(memoryview(part)[already:] if already else part)
                if sent == left:
                    parts.popleft()
                    already = 0
                    continue
                already += sent
                if sent == PIECE_BYTES:
                    return False
        except BlockingIOError:
            return False
        finally:
            self._sent_of_first = already
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
        return True

    def _send_from_memory(self, sock: socket.socket) -> bool:
        """Whether all is sent."""
        parts = self._parts
        while parts:
            room = PIECE_BYTES
            pieces: list[memoryview] = []
            for part in parts:
                piece = memoryview(_in_memory(part))[self._sent_of_first if not pieces else 0 :][:room]
                pieces.append(piece)
                room -= len(piece)
                if not room:
                    break
            try:
                sent = sock.sendmsg(pieces)
            except BlockingIOError:
                return False
            self._sent_of_first += sent
            while parts and self._sent_of_first >= len(parts[0]):
                self._sent_of_first -= len(parts.popleft())
            if sent == PIECE_BYTES and parts:
                return False
        return True

    def _raw_socket(self) -> socket.socket:
        """The transport's connection under a descriptor of our own, which the loop lets us watch."""
        if self._socket is None:
            theirs = self._transport.get_extra_info("socket")
            self._socket = socket.socket(fileno=os.dup(theirs.fileno()))
            self._socket.setblocking(False)
        return self._socket

    def _wait(self, wait: bool) -> None:
        if wait == self._waiting or self._socket is None:
            return
        self._waiting = wait
        loop = asyncio.get_running_loop()
        if wait:
            loop.add_writer(self._socket.fileno(), self._push)
        else:
            loop.remove_writer(self._socket.fileno())


def _in_memory(part: Part) -> Buffer:
    return part.view if isinstance(part, FileRange) else part


def _send_range(to: int, part: FileRange, sent: int, left: int) -> int:
    count = os.sendfile(to, part.file.descriptor, part.position + sent, min(left, PIECE_BYTES))
    if not count:
        raise OSError("the file is shorter than what was committed to it")
    return count
