"""The records inside a RecordBatch v2: varints, key, value, headers; any codec, in plain Python.

This is the general, slow way: a capture's encoder makes record bytes itself and calls `finish`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocol.errors import DecodeError
from protocol.records.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    finish,
    read_header,
    stamp,
)
from protocol.records.compression import MAX_UNCOMPRESSED_BYTES, Codec, decompress

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record; `timestamp` in milliseconds since 1970, `value` None for a tombstone."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def records(
    batch: bytes | bytearray | memoryview, *, position: int = 0, limit: int = MAX_UNCOMPRESSED_BYTES
) -> Iterator[Record]:
    """Read the records of the batch at `position`, decompressed if need be.

    DecodeError for anything malformed and for more than `limit` uncompressed bytes. The CRC is not looked at:
    see `check_crc`.
    """
    header = read_header(batch, position)
    end = position + header.size_bytes
    if end > len(batch):
        raise DecodeError(f"record batch at byte {position} runs past the end ({end} > {len(batch)})")
    body = decompress(header.codec, memoryview(batch)[position + HEADER_SIZE : end], limit=limit)
    return _read_records(header, memoryview(body))


def _read_records(header: BatchHeader, view: memoryview) -> Iterator[Record]:
    try:
        yield from _walk_records(header, view)
    except IndexError:
        raise DecodeError(f"record batch at offset {header.base_offset}: a record is cut off") from None


def _walk_records(header: BatchHeader, view: memoryview) -> Iterator[Record]:
    size, position = len(view), 0
    appended_at = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    for _ in range(header.record_count):
        length, position = _varint(view, position)
        end = position + length
        if length < 0 or end > size:
            raise DecodeError(
                f"record of {length} bytes at byte {position} runs past the batch ({size} bytes)"
            )
        timestamp_delta, position = _varint(view, position + 1)
        offset_delta, position = _varint(view, position)
        key, position = _nullable_bytes(view, position, end)
        value, position = _nullable_bytes(view, position, end)
        count, position = _varint(view, position)
        headers: tuple[Header, ...] = ()
        if count:
            headers, position = _headers(view, position, end, count)
        if position != end:
            raise DecodeError(f"record ends at byte {position}, its length says {end}")
        if not 0 <= offset_delta <= header.last_offset_delta:
            raise DecodeError(
                f"record with offset delta {offset_delta}, the batch ends at {header.last_offset_delta}"
            )
        timestamp = header.base_timestamp + timestamp_delta if appended_at is None else appended_at
        yield Record(header.base_offset + offset_delta, timestamp, key, value, headers)
    if position != size:
        raise DecodeError(f"{size - position} bytes follow the last record of a batch")


def _headers(view: memoryview, position: int, end: int, count: int) -> tuple[tuple[Header, ...], int]:
    # A header takes two bytes at least, so a larger count is refused before anything is made of it.
    if not 0 <= count <= (end - position) // 2:
        raise DecodeError(f"record with {count} headers in {end - position} bytes")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _nullable_bytes(view, position, end)
        if name is None:
            raise DecodeError("record header without a name")
        value, position = _nullable_bytes(view, position, end)
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError:
            raise DecodeError("name of a record header is not UTF-8") from None
    return tuple(headers), position


def _nullable_bytes(view: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = _varint(view, position)
    if length < 0:
        if length != -1:
            raise DecodeError(f"length {length} of a key, value or header")
        return None, position
    if length > end - position:
        raise DecodeError(f"{length} bytes of key, value or header in the {end - position} that are left")
    following = position + length
    return bytes(view[position:following]), following


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    """Read a zigzag varint; IndexError at the end of `view`. Ten bytes at most, as for a varlong."""
    byte = view[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value, shift = byte & 0x7F, 7
    while True:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise DecodeError(f"varint longer than ten bytes at byte {position}")
    value &= 0xFFFF_FFFF_FFFF_FFFF
    return (value >> 1) ^ -(value & 1), position


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header] = (),
) -> bytes:
    """Encode one record as it stands uncompressed in a batch, its length first."""
    body = bytearray(1)
    _put_varint(body, timestamp_delta)
    _put_varint(body, offset_delta)
    _put_bytes(body, key)
    _put_bytes(body, value)
    _put_varint(body, len(headers))
    for name, content in headers:
        _put_bytes(body, name.encode())
        _put_bytes(body, content)
    record = bytearray()
    _put_varint(record, len(body))
    return bytes(record + body)


def build(
    records: Sequence[Record],
    base_offset: int | None = None,
    codec: Codec = Codec.NONE,
    *,
    level: int | None = None,
    leader_epoch: int = 0,
    last_offset_delta: int | None = None,
    attributes: int = 0,
) -> bytearray:
    """Build a batch of `records`, which keep their offsets and timestamps.

    `base_offset` is the first record's offset unless given (a compacted batch may start before it).
    ValueError where there is no record and no base_offset, or an offset below it.
    """
    if base_offset is None:
        if not records:
            raise ValueError("an empty batch needs a base_offset")
        base_offset = records[0].offset
    base_timestamp = records[0].timestamp if records else -1
    payload = bytearray()
    for record in records:
        if record.offset < base_offset:
            raise ValueError(f"record at offset {record.offset} in a batch from {base_offset}")
        payload += encode_record(
            record.offset - base_offset,
            record.timestamp - base_timestamp,
            record.key,
            record.value,
            record.headers,
        )
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset - base_offset if records else 0
    batch = finish(
        payload,
        record_count=len(records),
        base_timestamp=base_timestamp,
        max_timestamp=max((record.timestamp for record in records), default=-1),
        codec=codec,
        level=level,
        last_offset_delta=last_offset_delta,
        attributes=attributes,
    )
    stamp(batch, base_offset, leader_epoch)
    return batch


def _put_varint(out: bytearray, value: int) -> None:
    rest = ((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def _put_bytes(out: bytearray, content: bytes | None) -> None:
    if content is None:
        _put_varint(out, -1)
    else:
        _put_varint(out, len(content))
        out += content
