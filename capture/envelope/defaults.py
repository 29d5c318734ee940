"""Column default expressions -> schema defaults (debezium/03 section 6)."""

from __future__ import annotations

import math
import re
from typing import Final

from capture.envelope.connect import Type, Value
from capture.envelope.errors import EnvelopeError
from capture.envelope.mapping import Mapping
from capture.envelope.options import EnvelopeOptions
from capture.envelope.table import ENUM, Column

#: A call, also behind one parenthesis, whatever follows it.
_CALL: Final = re.compile(r"[(]?[A-Za-z0-9_.]+\(.*\)").match
_CURRENT: Final = frozenset(
    ["current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"]
)
_LITERAL: Final = re.compile(r"'([^']*(?:''[^']*)*)'")
_TRIMMED: Final = frozenset(
    [
        "bit",
        "varbit",
        "bool",
        "numeric",
        "float4",
        "float8",
        "int2",
        "int4",
        "int8",
        "uuid",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "interval",
    ]
)
_PLACEHOLDERS: Final = {
    "bit": "00",
    "varbit": "0",
    "bool": "f",
    "bpchar": "",
    "varchar": "",
    "text": "",
    "numeric": "0",
    "float4": "0",
    "float8": "0",
    "int2": "0",
    "int4": "0",
    "int8": "0",
    "json": "{}",
    "jsonb": "{}",
    "xml": "",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "date": "1970-01-01",
    "time": "00:00:00",
    "timestamp": "1970-01-01 00:00:00",
    "timestamptz": "1970-01-01 00:00:00+00",
    "interval": None,
}
_NUMBERS: Final = {"numeric", "float4", "float8", "int2", "int4", "int8"}


def schema_default(column: Column, mapping: Mapping, options: EnvelopeOptions) -> Value:
    """The default of the column's schema, None if there is none."""
    expression = column.default
    if expression is None or column.generated or mapping.schema.type is Type.STRUCT:
        return None
    if column.type.kind == ENUM:
        return _enum_label(expression, column.type.name)
    name = column.type.name
    if name not in _PLACEHOLDERS or column.type.element is not None or column.type.base is not None:
        return None
    text = _literal(expression.strip() if name in _TRIMMED else expression, _PLACEHOLDERS[name])
    if text is None:
        return None
    try:
        default = _convert(name, text, mapping)
    except (EnvelopeError, ValueError):
        return None
    if isinstance(default, float) and not math.isfinite(default):
        return None  # neither Avro nor JSON can spell such a default
    return default


def _literal(expression: str, placeholder: str | None) -> str | None:
    """The text of the default: Debezium takes the first quoted literal of whatever is no call."""
    if _CALL(expression) or expression.lower() in _CURRENT:
        return placeholder
    if expression.startswith("NULL::"):
        return None
    if "'" not in expression:
        return expression
    match = _LITERAL.search(expression)
    return match.group(1).replace("''", "'") if match else None


def _enum_label(expression: str, type_name: str) -> str | None:
    literal, separator, cast = expression.rpartition("::")
    if not separator or cast.rpartition(".")[2].strip('"') != type_name:
        return None
    return literal[1:-1].replace("''", "'") if literal[:1] == "'" == literal[-1:] else None


def _convert(name: str, text: str, mapping: Mapping) -> Value:
    """Read the literal as column data would be."""
    if name == "bool":
        return text.lower() == "true"
    if name in ("bit", "varbit") and mapping.schema.type is Type.BOOLEAN:
        return text == "1"
    if name in ("date", "time", "timestamp", "timestamptz", "interval"):
        text = text.strip()
    if name == "time" and text.count(":") == 1:
        text += ":00"
    return mapping.parse(text.encode())
