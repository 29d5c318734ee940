"""Postgres type + handling modes -> mapping (debezium/03)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from capture.envelope import interval, text_values
from capture.envelope.connect import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT16,
    INT32,
    INT64,
    STRING,
    Schema,
    Type,
    Value,
    array,
    semantic,
)
from capture.envelope.extension_types import geometry_mapping, hstore_mapping, point_mapping, vector_mapping
from capture.envelope.mapping import DEBEZIUM, UNCAST, Mapping, Op
from capture.envelope.numeric_types import money_mapping, numeric_mapping
from capture.envelope.options import BinaryHandling, EnvelopeOptions, IntervalHandling
from capture.envelope.table import BASE, DOMAIN, ENUM, RANGE, Column, TypeInfo
from capture.envelope.temporal_types import temporal_mapping

_STRING_SEMANTIC: Final = {
    "json": "data.Json",
    "jsonb": "data.Json",
    "xml": "data.Xml",
    "uuid": "data.Uuid",
    "ltree": "data.Ltree",
    "tsvector": "data.Tsvector",
}
_PLAIN_STRINGS: Final = frozenset(
    [
        "bpchar",
        "varchar",
        "text",
        "char",
        "name",
        "citext",
        "isbn",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "int4range",
        "int8range",
        "numrange",
        "tsrange",
        "tstzrange",
        "daterange",
    ]
)
#: Types whose send format is their text.
_TEXT_ON_THE_WIRE: Final = frozenset(["bpchar", "varchar", "text", "name", "json", "xml"])
#: A cast to text is not the output function for these (it adds a mask, or reads a byte as a letter).
_OUTPUT_FUNCTION: Final = {
    "inet": "textin(inet_out({}))",
    "cidr": "textin(cidr_out({}))",
    "char": "textin(charout({}))",
}
_INTEGERS: Final = {
    "int2": (Op.INT16, INT16, text_values.integer(16)),
    "int4": (Op.INT32, INT32, text_values.integer(32)),
    "int8": (Op.INT64, INT64, text_values.integer(64)),
    "oid": (Op.OID, INT64, text_values.integer(32, unsigned=True)),
}
_GEOMETRIC: Final = frozenset(("line", "lseg", "box", "path", "polygon", "circle"))
_UNMAPPED_ARRAYS: Final = frozenset(["money", "interval", "xml", "point", "name", "varbit", "refcursor"])
_TEXT_ARRAYS: Final = frozenset(["text", "varchar", "bpchar", "char", "json", "jsonb"])
_UNBOUNDED: Final = 2_147_483_647


def map_column(column: Column, options: EnvelopeOptions) -> Mapping | None:
    """The mapping of a column, None for a type that is left out of rows."""
    info, typmod = _root(column.type, column.typmod)
    return map_type(info, typmod, options)


def _root(info: TypeInfo, typmod: int) -> tuple[TypeInfo, int]:
    """Look through domains at any depth; the innermost modifier counts."""
    while info.kind == DOMAIN and info.base is not None:
        typmod = info.base_typmod if info.base_typmod != -1 else typmod
        info = info.base
    return info, typmod


def map_type(info: TypeInfo, typmod: int, options: EnvelopeOptions) -> Mapping | None:
    """The mapping of a type that is no domain."""
    if info.element is not None:
        return _array(info.element, typmod, options)
    if info.kind == ENUM:
        return _enum(info, options)
    mapping = _scalar(info.name, typmod, options) if _has_own_meaning(info) else None
    if mapping is None and options.include_unknown_datatypes:
        mode = options.binary_handling
        schema, zero, unavailable = _binary(options)
        reader = text_values.geometric if info.name in _GEOMETRIC else text_values.unknown
        mapping = Mapping(schema, Op.PYTHON, reader(mode), zero, unavailable)
    return mapping


def _has_own_meaning(info: TypeInfo) -> bool:
    """Composites, and ranges other than the built-in ones, are unknown types whatever their name."""
    return info.kind == BASE or (info.kind == RANGE and info.namespace == "pg_catalog")


def _scalar(name: str, typmod: int, options: EnvelopeOptions) -> Mapping | None:
    if name in _INTEGERS:
        op, schema, parse = _INTEGERS[name]
        return Mapping(schema, op, parse, 0, copy=UNCAST, binary=True)
    if name in _PLAIN_STRINGS or name in _STRING_SEMANTIC:
        return _string(name, options)
    match name:
        case "bool":
            return Mapping(BOOLEAN, Op.BOOLEAN, text_values.boolean, False, copy=UNCAST, binary=True)
        case "float4":
            return Mapping(FLOAT, Op.FLOAT, text_values.single, 0.0, copy=UNCAST, binary=True)
        case "float8":
            return Mapping(DOUBLE, Op.DOUBLE, text_values.double, 0.0, copy=UNCAST, binary=True)
        case "numeric":
            return numeric_mapping(typmod, options)
        case "money":
            return money_mapping(options)
        case "bytea":
            return _bytea(options)
        case "bit" | "varbit":
            return _bits(name, typmod)
        case "interval":
            return _interval(options)
        case "hstore":
            return hstore_mapping(options)
        case "point":
            return point_mapping()
        case "geometry" | "geography":
            return geometry_mapping(name)
        case "vector" | "halfvec" | "sparsevec":
            return vector_mapping(name)
        case _:
            return temporal_mapping(name, typmod, options.time_precision)


def _string(name: str, options: EnvelopeOptions) -> Mapping:
    schema = STRING
    if name in _STRING_SEMANTIC:
        schema = semantic(STRING, DEBEZIUM + _STRING_SEMANTIC[name])
    mapping = Mapping(schema, Op.STRING, text_values.string, "", options.placeholder_text)
    if name == "uuid":
        return replace(mapping, op=Op.UUID, copy=UNCAST, binary=True)
    if name == "jsonb":
        return replace(mapping, op=Op.JSONB, copy=UNCAST, binary=True)
    if name in _TEXT_ON_THE_WIRE:
        return replace(mapping, copy=UNCAST, binary=True)
    return replace(mapping, copy=_OUTPUT_FUNCTION.get(name, mapping.copy))


def _enum(info: TypeInfo, options: EnvelopeOptions) -> Mapping:
    schema = semantic(STRING, DEBEZIUM + "data.Enum", ("allowed", ",".join(info.enum_labels)))
    return Mapping(
        schema, Op.STRING, text_values.string, "", options.placeholder_text, copy=UNCAST, binary=True
    )


def _binary(options: EnvelopeOptions) -> tuple[Schema, Value, Value]:
    """Schema, zero value and TOAST placeholder of `binary.handling.mode`."""
    match options.binary_handling:
        case BinaryHandling.BYTES:
            return BYTES, b"", options.placeholder_bytes
        case BinaryHandling.HEX:
            return STRING, "", options.placeholder_text
        case _:
            return STRING, "", None


_BYTEA_OPS: Final = {
    BinaryHandling.BYTES: Op.BYTES,
    BinaryHandling.BASE64: Op.BYTES_BASE64,
    BinaryHandling.BASE64_URL_SAFE: Op.BYTES_BASE64_URL,
    BinaryHandling.HEX: Op.BYTES_HEX,
}


def _bytea(options: EnvelopeOptions) -> Mapping:
    mode = options.binary_handling
    schema, zero, unavailable = _binary(options)
    return Mapping(
        schema, _BYTEA_OPS[mode], text_values.bytea(mode), zero, unavailable, copy=UNCAST, binary=True
    )


def _bits(name: str, typmod: int) -> Mapping:
    length = typmod if typmod != -1 else _UNBOUNDED
    if length == 1:
        return Mapping(BOOLEAN, Op.PYTHON, text_values.bit, False)
    schema = semantic(BYTES, DEBEZIUM + "data.Bits", ("length", str(length)))
    return Mapping(schema, Op.PYTHON, text_values.bits, b"")


def _interval(options: EnvelopeOptions) -> Mapping:
    if options.interval_handling is IntervalHandling.STRING:
        schema = semantic(STRING, DEBEZIUM + "time.Interval")
        return Mapping(schema, Op.PYTHON, interval.interval_text, "P0Y0M0DT0H0M0S")
    schema = semantic(INT64, DEBEZIUM + "time.MicroDuration")
    return Mapping(schema, Op.PYTHON, interval.interval_count, 0)


def _array(element: TypeInfo, typmod: int, options: EnvelopeOptions) -> Mapping | None:
    """Section 4 of debezium/03."""
    empty: list[Value] = []
    if element.kind == DOMAIN or (element.kind != ENUM and element.name in _UNMAPPED_ARRAYS):
        known = None
    elif element.element is None and element.name == "bit":
        bits = _bits("bit", typmod)
        return Mapping(bits.schema, Op.PYTHON, lambda text: None, bits.zero)
    else:
        known = map_type(element, typmod, replace(options, include_unknown_datatypes=False))
    delimiter = b";" if element.name == "box" else b","
    if known is None:
        if not options.include_unknown_datatypes or element.name in _UNMAPPED_ARRAYS:
            return None
        schema, zero, _ = _binary(options)
        parse = text_values.array(text_values.unknown(options.binary_handling), zero, delimiter)
        return Mapping(array(schema), Op.PYTHON, parse, empty)
    required = element.kind == ENUM or element.name in ("vector", "halfvec", "sparsevec")
    schema = known.schema if required else known.schema.as_optional()
    item = known.parse
    if element.name == "numeric":
        item = text_values.finite(item)
    elif element.name == "time":
        item = text_values.whole_milliseconds(item)
    parse = text_values.array(item, known.zero if required else None)
    return Mapping(array(schema), Op.PYTHON, parse, empty, _unavailable_array(element, known, options))


def _unavailable_array(element: TypeInfo, known: Mapping, options: EnvelopeOptions) -> Value:
    """Section 7 of debezium/03: what stands for an unchanged TOAST array."""
    placeholder = options.placeholder_bytes
    if element.kind == ENUM:
        return None
    if element.name in _TEXT_ARRAYS:
        return [options.placeholder_text]
    if element.name == "bytea" and options.binary_handling is BinaryHandling.BYTES:
        return [placeholder]
    if element.name == "uuid":
        return [text_values.uuid_of(placeholder)]
    if element.name in ("int4", "int8", "date") and known.schema.type in (Type.INT32, Type.INT64):
        return [byte - 256 if byte > 127 else byte for byte in placeholder]
    return None
