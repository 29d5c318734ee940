"""`__debezium.newkey` and `__debezium.oldkey`: a key struct as Connect's SimpleHeaderConverter prints it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from capture.envelope.connect import Schema, Type
from capture.envelope.java_text import big_decimal, java_double, java_float

_CONNECT_DATES: Final = {
    "org.apache.kafka.connect.data.Date": 86_400_000,
    "org.apache.kafka.connect.data.Time": 1,
    "org.apache.kafka.connect.data.Timestamp": 1,
}
_MILLISECONDS_PER_DAY: Final = 86_400_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _date(milliseconds: int) -> str:
    """Connect chooses the pattern by the value, not by the type."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    clock = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    if milliseconds < _MILLISECONDS_PER_DAY:
        return clock
    day = f"{moment.year:04d}-{moment:%m-%d}"
    return day if milliseconds % _MILLISECONDS_PER_DAY == 0 else f"{day}T{clock}"


def header_text(schema: Schema) -> Callable[[Any], str]:
    """A function that prints a value of `schema`; a null shows as the schema's default."""
    plain = _plain(schema)
    null = "null" if schema.default is None else plain(schema.default)
    return lambda value: null if value is None else plain(value)


def _plain(schema: Schema) -> Callable[[Any], str]:
    if schema.name in _CONNECT_DATES:
        factor = _CONNECT_DATES[schema.name]
        return lambda value: _date(value * factor)
    scale = schema.scale
    match schema.type:
        case Type.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Type.FLOAT:
            return java_float
        case Type.DOUBLE:
            return java_double
        case Type.STRING:
            return _quoted
        case Type.BYTES if scale is not None:
            return lambda value: big_decimal(int.from_bytes(value, "big", signed=True), scale)
        case Type.BYTES:
            return lambda value: f'"{base64.b64encode(value).decode()}"'
        case Type.ARRAY:
            assert schema.items is not None
            item = header_text(schema.items)
            return lambda value: f"[{','.join(map(item, value))}]"
        case Type.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            key, entry = header_text(schema.keys), header_text(schema.values)
            return lambda value: "{" + ",".join(f"{key(k)}:{entry(v)}" for k, v in value) + "}"
        case Type.STRUCT:
            members = [(_quoted(field.name), header_text(field.schema)) for field in schema.fields]
            return lambda value: (
                "{" + ",".join(f"{n}:{w(v)}" for (n, w), v in zip(members, value, strict=True)) + "}"
            )
        case _:
            return str
