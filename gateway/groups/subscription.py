"""What a consumer's JoinGroup metadata says of its subscription (the `consumer` protocol type, KIP-429 and
before)."""

import struct
from typing import Final

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics a member subscribes to; None if its metadata is not the consumer protocol's.

    Every version of that protocol begins like version 0: int16 version, then an array of topic names.
    """
    try:
        (version,) = _INT16.unpack_from(metadata, 0)
        (count,) = _INT32.unpack_from(metadata, 2)
        position = 6
        if version < 0 or not 0 <= count <= (len(metadata) - position) // 2:
            return None
        topics = set()
        for _ in range(count):
            (length,) = _INT16.unpack_from(metadata, position)
            end = position + 2 + length
            if length < 0 or end > len(metadata):
                return None
            topics.add(metadata[position + 2 : end].decode())
            position = end
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
