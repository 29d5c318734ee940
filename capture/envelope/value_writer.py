"""Writes a value of a Connect schema in Avro's binary form or as JSON; made once per schema, then called.

The general way, for constants and for the rarer types; the hot types have ways of their own in the encoders.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from capture.envelope.avro_schema import scalar_text
from capture.envelope.connect import Schema, Type
from capture.envelope.java_text import json_string

Write: TypeAlias = Callable[[Any], bytes]

_FLOAT = struct.Struct("<f").pack
_DOUBLE = struct.Struct("<d").pack


def varint(number: int) -> bytes:
    """A zig-zag variable-length integer: Avro's int and long, and Kafka's varint."""
    n = number << 1 ^ number >> 63
    if n < 0x800:
        return _SMALL[n]
    if n < 0x4000:
        return bytes((n & 127 | 128, n >> 7))
    if n < 0x20_0000:
        return bytes((n & 127 | 128, n >> 7 & 127 | 128, n >> 14))
    if n < 0x1000_0000:
        return bytes((n & 127 | 128, n >> 7 & 127 | 128, n >> 14 & 127 | 128, n >> 21))
    low = bytes((n & 127 | 128, n >> 7 & 127 | 128, n >> 14 & 127 | 128, n >> 21 & 127 | 128))
    return low + _rest(n >> 28)


def _rest(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


_SMALL: Final = [_rest(n) for n in range(0x800)]


def avro_bytes(raw: bytes) -> bytes:
    """Avro bytes or string: a length and the bytes."""
    return varint(len(raw)) + raw


def avro_writer(schema: Schema, *, substitute: bool = True) -> Write:
    """The writer of `schema`. `substitute` writes a null as the schema's default where there is one."""
    plain = _avro_plain(schema, substitute)
    if not schema.optional:
        if schema.default is None:
            return plain
        default = plain(schema.default)
        return lambda value: default if value is None else plain(value)
    branch, null = (b"\x02", b"\x00") if schema.default is None else (b"\x00", b"\x02")
    if schema.default is not None and substitute:
        null = branch + plain(schema.default)
    return lambda value: null if value is None else branch + plain(value)


def _avro_plain(schema: Schema, substitute: bool) -> Write:
    match schema.type:
        case Type.BOOLEAN:
            return lambda value: b"\x01" if value else b"\x00"
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return varint
        case Type.FLOAT:
            return _FLOAT
        case Type.DOUBLE:
            return _DOUBLE
        case Type.STRING:
            return lambda value: avro_bytes(value.encode())
        case Type.BYTES:
            return avro_bytes
        case Type.ARRAY:
            assert schema.items is not None
            item = avro_writer(schema.items, substitute=substitute)
            return lambda value: _avro_blocks([item(v) for v in value])
        case Type.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            key = avro_writer(schema.keys, substitute=substitute)
            entry = avro_writer(schema.values, substitute=substitute)
            return lambda value: _avro_blocks([key(k) + entry(v) for k, v in value])
        case Type.STRUCT:
            writers = [avro_writer(field.schema, substitute=substitute) for field in schema.fields]
            return lambda value: b"".join(w(v) for w, v in zip(writers, value, strict=True))


def _avro_blocks(items: list[bytes]) -> bytes:
    """Avro's array and map: one block and the end mark."""
    if not items:
        return b"\x00"
    return varint(len(items)) + b"".join(items) + b"\x00"


def json_writer(schema: Schema, *, substitute: bool = True, numeric: bool = False) -> Write:
    """The same for JSON; `numeric` is `decimal.format=NUMERIC`."""
    plain = _json_plain(schema, substitute, numeric)
    null = b"null"
    if schema.default is not None and (substitute or not schema.optional):
        null = plain(schema.default)
    return lambda value: null if value is None else plain(value)


def _json_plain(schema: Schema, substitute: bool, numeric: bool) -> Write:
    match schema.type:
        case Type.ARRAY:
            assert schema.items is not None
            item = json_writer(schema.items, substitute=substitute, numeric=numeric)
            return lambda value: b"[%b]" % b",".join([item(v) for v in value])
        case Type.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            key = json_writer(schema.keys, substitute=substitute, numeric=numeric)
            entry = json_writer(schema.values, substitute=substitute, numeric=numeric)
            if schema.keys.type is Type.STRING and not schema.keys.optional:
                return lambda value: b"{%b}" % b",".join([key(k) + b":" + entry(v) for k, v in value])
            return lambda value: b"[%b]" % b",".join([b"[%b,%b]" % (key(k), entry(v)) for k, v in value])
        case Type.STRUCT:
            writers = [
                (
                    json_string(field.name).encode() + b":",
                    json_writer(field.schema, substitute=substitute, numeric=numeric),
                )
                for field in schema.fields
            ]
            return lambda value: (
                b"{%b}" % b",".join(n + w(v) for (n, w), v in zip(writers, value, strict=True))
            )
        case _:
            return lambda value: scalar_text(schema, value, numeric=numeric).encode()
