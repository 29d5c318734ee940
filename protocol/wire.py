"""What generated decoders and encoders call for the uncommon: long varints, new uuids, tagged fields."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from protocol.errors import DecodeError
from protocol.schema import UNKNOWN_TAGGED_FIELDS, ZERO_UUID

BYTE: Final = tuple(bytes((number,)) for number in range(256))
"""Every single byte."""

_KNOWN_UUIDS: Final = 4096

uuids: dict[bytes, UUID] = {ZERO_UUID.bytes: ZERO_UUID}
"""Uuids seen of late, since constructing one costs more than decoding all of a small request."""


def new_uuid(raw: bytes) -> UUID:
    """Make the uuid of 16 bytes and remember it; a peer that sends ever new ones cannot make memory grow."""
    if len(uuids) >= _KNOWN_UUIDS:
        uuids.clear()
        uuids[ZERO_UUID.bytes] = ZERO_UUID
    made = uuids[raw] = UUID(bytes=raw)
    return made


def rest_of_varint(data: bytes, position: int, low: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte `low` had its high bit set: (value, position after it)."""
    value = low & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise DecodeError("a varint is longer than 32 bits")


def varint(value: int) -> bytes:
    """An unsigned varint; raise ValueError when it is negative or longer than 32 bits."""
    if 0x7F < value < 0x200000:
        # What the sizes of record batches need.
        if value < 0x4000:
            return bytes((value & 0x7F | 0x80, value >> 7))
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    if not 0 <= value <= 0xFFFFFFFF:
        raise ValueError(f"{value} is not in the range of an unsigned 32-bit varint")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


TaggedDecoder = Callable[[bytes, int, int], tuple[Any, int]]
"""Reads a tagged field's value from (data, position, end): the value and the position after it."""


def read_tagged_fields(
    target: object,
    known: Mapping[int, tuple[str, TaggedDecoder]],
    where: str,
    data: bytes,
    position: int,
    end: int,
    count: int,
) -> int:
    """Read tagged fields into `target`; `count` is the first byte of their number. Return the position after.

    A known field must fit into its declared size; bytes that it leaves over are skipped, for later versions.
    """
    if count > 0x7F:
        count, position = rest_of_varint(data, position, count)
    if count * 2 > end - position:
        raise DecodeError(f"{where} declares {count} tagged fields in {end - position} bytes")
    unknown = {}
    for _ in range(count):
        tag = data[position]
        position += 1
        if tag > 0x7F:
            tag, position = rest_of_varint(data, position, tag)
        size = data[position]
        position += 1
        if size > 0x7F:
            size, position = rest_of_varint(data, position, size)
        stop = position + size
        if stop > end:
            raise DecodeError(f"{where} has a tagged field that runs past the end")
        if tag in known:
            name, decode = known[tag]
            value, position = decode(data, position, stop)
            if position > stop:
                raise DecodeError(f"{where}.{name} is longer than the size of its tagged field")
            setattr(target, name, value)
        else:
            unknown[tag] = data[position:stop]
        position = stop
    if unknown:
        setattr(target, UNKNOWN_TAGGED_FIELDS, unknown)
    return position


def write_tagged_fields(known: Mapping[int, bytes], unknown: Mapping[int, bytes]) -> bytes:
    """Write tagged fields, number first, by ascending tag as KIP-482 demands."""
    fields = {**unknown, **known}
    pieces = [varint(len(fields))]
    for tag in sorted(fields):
        pieces += (varint(tag), varint(len(fields[tag])), fields[tag])
    return b"".join(pieces)
