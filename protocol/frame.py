"""Cuts a byte stream into frames: a four-byte size, then as many bytes."""

from collections.abc import Iterator
from typing import Final

from protocol.errors import DecodeError

_PREFIX: Final = 4
_STRANGERS: Final = (
    (b"\x16\x03", "this looks like a TLS handshake; the listener expects plain text"),
    (b"GET ", "this looks like an HTTP request; the port speaks Kafka's protocol"),
    (b"POST", "this looks like an HTTP request; the port speaks Kafka's protocol"),
    (b"HEAD", "this looks like an HTTP request; the port speaks Kafka's protocol"),
    (b"PUT ", "this looks like an HTTP request; the port speaks Kafka's protocol"),
)


class Frames:
    """The frames of one connection, fed with bytes as they come.

    What is kept is what has arrived and no more: a declared size allocates nothing. After a DecodeError the
    stream has no boundaries any more and the connection must be closed.
    """

    def __init__(self, max_size: int) -> None:
        """`max_size` is the largest frame accepted, in bytes, without its size prefix."""
        self._max_size = max_size
        self._chunks: list[bytes] = []
        self._held = 0
        self._wanted = _PREFIX

    @property
    def held(self) -> int:
        """Bytes of the frame that is not yet complete."""
        return self._held

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield each frame that `data` completes, without its size prefix; exhaust it before the next call.

        Raises DecodeError at a size that is negative or too large, after the frames before it.
        """
        if self._held:
            if self._held + len(data) < self._wanted:
                self._chunks.append(data)
                self._held += len(data)
                return
            self._chunks.append(data)
            data = b"".join(self._chunks)
            self._chunks.clear()
            self._held = 0
        position = 0
        end = len(data)
        while end - position >= _PREFIX:
            start = position + _PREFIX
            stop = start + self._size(data, position)
            if stop > end:
                self._wanted = stop - position
                break
            position = stop
            yield data[start:stop]
        else:
            self._wanted = _PREFIX
        if position < end:
            self._chunks.append(data[position:] if position else data)
            self._held = end - position

    def _size(self, data: bytes, position: int) -> int:
        size = int.from_bytes(data[position : position + _PREFIX], "big", signed=True)
        if 0 <= size <= self._max_size:
            return size
        for start, what in _STRANGERS:
            if data.startswith(start, position):
                raise DecodeError(what)
        raise DecodeError(f"a frame declares {size} bytes; at most {self._max_size} are accepted")
