"""What is read out of a consumer's own metadata, and that nothing in it can do harm."""

import random
import struct

import pytest

from gateway.groups.subscription import subscribed_topics


def encoded(version: int, topics: list[str], rest: bytes = b"") -> bytes:
    names = b"".join(struct.pack(">h", len(name.encode())) + name.encode() for name in topics)
    return struct.pack(">hi", version, len(topics)) + names + rest


@pytest.mark.parametrize("version", range(4))
def test_topics_are_read_in_every_version(version: int) -> None:
    metadata = encoded(version, ["shop.public.orders", "zoé"], b"\xff\xff\xff\xff" * version)
    assert subscribed_topics(metadata) == {"shop.public.orders", "zoé"}


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\0",
        b"\0\0\0\0\0\x05",
        encoded(0, ["a"])[:-1],
        b"\0\0\x7f\xff\xff\xff",
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\0\0\0\x01\xff\xff",
        b"\0\0\0\0\0\x01\0\x02\xff\xfe",
        b"\xff\xff\0\0\0\0",
    ],
)
def test_anything_else_is_not_understood(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None


def test_random_bytes_do_no_harm() -> None:
    chance = random.Random(1)
    for _ in range(2_000):
        subscribed_topics(chance.randbytes(chance.randrange(40)))
