"""Send-format bytes of COPY BINARY -> the type's output text (debezium/10 section 7).

The general way: a binary value becomes the text that the stream would have carried and is then read as that.
The compiled encoder goes straight from the binary form and is held against this.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Final, TypeAlias

from capture.envelope import exact_numbers, temporal
from capture.envelope.errors import MalformedMessage
from capture.envelope.mapping import Op

Render: TypeAlias = Callable[[bytes], bytes]

_POSTGRES_INFINITY: Final = {(1 << 63) - 1: b"infinity", -(1 << 63): b"-infinity"}
_DATE_INFINITY: Final = {(1 << 31) - 1: b"infinity", -(1 << 31): b"-infinity"}
_JSONB_VERSION: Final = b"\x01"


def _fixed(layout: str) -> Callable[[bytes], int | float]:
    reader = struct.Struct(layout)

    def read(raw: bytes) -> int | float:
        if len(raw) != reader.size:
            raise MalformedMessage(f"a binary value has {len(raw)} bytes instead of {reader.size}")
        value: int | float = reader.unpack(raw)[0]
        return value

    return read


def _number(layout: str) -> Render:
    read = _fixed(layout)
    return lambda raw: repr(read(raw)).encode()


def _float(layout: str) -> Render:
    read = _fixed(layout)
    names = {"inf": b"Infinity", "-inf": b"-Infinity", "nan": b"NaN"}

    def render(raw: bytes) -> bytes:
        text = repr(read(raw))
        return names.get(text) or text.encode()

    return render


def _boolean(raw: bytes) -> bytes:
    if len(raw) != 1:
        raise MalformedMessage(f"a binary boolean has {len(raw)} bytes")
    return b"t" if raw[0] else b"f"


def _jsonb(raw: bytes) -> bytes:
    if raw[:1] != _JSONB_VERSION:
        raise MalformedMessage("a binary jsonb is not of version 1")
    return raw[1:]


def _uuid(raw: bytes) -> bytes:
    if len(raw) != 16:
        raise MalformedMessage(f"a binary uuid has {len(raw)} bytes")
    return str(uuid.UUID(bytes=raw)).encode()


_int32 = _fixed(">i")
_int64 = _fixed(">q")


def _day(days: int) -> tuple[str, str]:
    year, month, day = temporal.civil_from_days(days)
    era = "" if year > 0 else " BC"
    return f"{year if year > 0 else 1 - year:04d}-{month:02d}-{day:02d}", era


def _clock(microseconds: int) -> str:
    seconds, fraction = divmod(microseconds, 1_000_000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"


def _date(raw: bytes) -> bytes:
    days = int(_int32(raw))
    if days in _DATE_INFINITY:
        return _DATE_INFINITY[days]
    text, era = _day(days + temporal.POSTGRES_EPOCH_DAYS)
    return f"{text}{era}".encode()


def _time(raw: bytes) -> bytes:
    microseconds = int(_int64(raw))
    if not 0 <= microseconds <= temporal.MICROSECONDS_PER_DAY:
        raise MalformedMessage("a binary time is outside the day")
    return _clock(microseconds).encode()


def _timestamp(zone: str) -> Render:
    def render(raw: bytes) -> bytes:
        value = int(_int64(raw))
        if value in _POSTGRES_INFINITY:
            return _POSTGRES_INFINITY[value]
        days, microseconds = temporal.from_postgres_microseconds(value)
        text, era = _day(days)
        return f"{text} {_clock(microseconds)}{zone}{era}".encode()

    return render


def _bytea(raw: bytes) -> bytes:
    return b"\\x" + raw.hex().encode()


#: Ops whose binary form is their text are left out.
RENDER: Final[dict[Op, Render]] = {
    Op.BOOLEAN: _boolean,
    Op.INT16: _number(">h"),
    Op.INT32: _number(">i"),
    Op.INT64: _number(">q"),
    Op.OID: _number(">I"),
    Op.FLOAT: _float(">f"),
    Op.DOUBLE: _float(">d"),
    Op.JSONB: _jsonb,
    Op.UUID: _uuid,
    **dict.fromkeys((Op.BYTES, Op.BYTES_BASE64, Op.BYTES_BASE64_URL, Op.BYTES_HEX), _bytea),
    **dict.fromkeys(
        (Op.DECIMAL, Op.VARIABLE_DECIMAL, Op.NUMERIC_DOUBLE, Op.NUMERIC_STRING), exact_numbers.numeric_text
    ),
    **dict.fromkeys((Op.DATE, Op.DATE_ISO), _date),
    **dict.fromkeys((Op.TIME_MS, Op.TIME_US, Op.TIME_NS, Op.TIME_ISO), _time),
    **dict.fromkeys((Op.TIMESTAMP_MS, Op.TIMESTAMP_US, Op.TIMESTAMP_NS, Op.TIMESTAMP_ISO), _timestamp("")),
    Op.TIMESTAMPTZ: _timestamp("+00"),
}
