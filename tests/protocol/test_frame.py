"""Frames are found whatever the pieces in which a stream arrives."""

import struct
import tracemalloc
from random import Random

import pytest

from protocol.errors import DecodeError
from protocol.frame import Frames


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def test_one_call_can_hold_many_frames() -> None:
    frames = Frames(100)
    assert list(frames.feed(framed(b"a") + framed(b"") + framed(b"bcd"))) == [b"a", b"", b"bcd"]
    assert frames.held == 0


def test_frames_come_out_whole_however_the_stream_is_cut() -> None:
    random = Random(3)
    for _ in range(200):
        payloads = [
            random.randbytes(random.choice((0, 1, 3, 50, 4000))) for _ in range(random.randrange(1, 8))
        ]
        stream = b"".join(map(framed, payloads))
        frames = Frames(4000)
        found: list[bytes] = []
        position = 0
        while position < len(stream):
            step = random.choice((1, 2, 3, 4, 5, 1000, 9000))
            found += frames.feed(stream[position : position + step])
            position += step
        assert found == payloads
        assert frames.held == 0


def test_what_is_not_complete_is_held() -> None:
    frames = Frames(100)
    assert list(frames.feed(framed(b"abc")[:5])) == []
    assert frames.held == 5
    assert list(frames.feed(b"bc" + b"\0\0")) == [b"abc"]
    assert frames.held == 2


@pytest.mark.parametrize("size", [-1, 101, 2**31 - 1, -(2**31)])
def test_a_size_out_of_range_is_an_error(size: int) -> None:
    with pytest.raises(DecodeError, match=f"declares {size} bytes; at most 100"):
        list(Frames(100).feed(struct.pack(">i", size)))


def test_frames_before_the_bad_size_come_first() -> None:
    feed = Frames(100).feed(framed(b"good") + b"\xff\xff\xff\xff")
    assert next(feed) == b"good"
    with pytest.raises(DecodeError):
        next(feed)


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"\x16\x03\x01\x02\x00", "TLS"), (b"GET / HTTP/1.1\r\n", "HTTP"), (b"POST /subjects", "HTTP")],
)
def test_strangers_are_recognised(data: bytes, says: str) -> None:
    with pytest.raises(DecodeError, match=says):
        list(Frames(1 << 20).feed(data))


def test_a_declared_size_allocates_nothing() -> None:
    tracemalloc.start()
    try:
        frames = Frames(1 << 30)
        assert list(frames.feed(struct.pack(">i", 1 << 30) + b"x")) == []
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_large_frame_in_small_pieces_is_joined_once() -> None:
    """Joining at each piece would copy 64 KiB pieces of 32 MiB some 8 GiB in total, and take seconds."""
    payload = bytes(32 << 20)
    stream = framed(payload)
    frames = Frames(len(payload))
    found = [frame for at in range(0, len(stream), 65536) for frame in frames.feed(stream[at : at + 65536])]
    assert found == [payload]
