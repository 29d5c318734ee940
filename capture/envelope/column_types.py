"""Postgres type + handling modes -> Connect schema and the way its values are read (debezium/03)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from capture.envelope import exact_numbers, interval, temporal, text_values
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
    decimal,
    semantic,
    struct,
)
from capture.envelope.options import (
    BinaryHandling,
    DecimalHandling,
    EnvelopeOptions,
    HstoreHandling,
    IntervalHandling,
    TimePrecision,
)
from capture.envelope.table import BASE, DOMAIN, ENUM, RANGE, Column, TypeInfo
from capture.envelope.text_values import Parse


class Op(IntEnum):
    """How a value gets from Postgres' bytes to the output. All but PYTHON are native in both encoders."""

    PYTHON = 0  # the column's own function: text in, Connect value out
    BOOLEAN = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    OID = 5
    FLOAT = 6
    DOUBLE = 7
    STRING = 8
    JSONB = 9  # STRING whose binary form starts with a version byte
    UUID = 10
    BYTES = 11
    BYTES_BASE64 = 12
    BYTES_BASE64_URL = 13
    BYTES_HEX = 14
    DECIMAL = 15  # parameter: scale
    VARIABLE_DECIMAL = 16
    NUMERIC_DOUBLE = 17
    NUMERIC_STRING = 18
    DATE = 19
    DATE_ISO = 20
    TIME_MS = 21
    TIME_US = 22
    TIME_NS = 23
    TIME_ISO = 24
    TIMESTAMP_MS = 25
    TIMESTAMP_US = 26
    TIMESTAMP_NS = 27
    TIMESTAMP_ISO = 28
    TIMESTAMPTZ = 29  # parameter: digits of the fraction


@dataclass(frozen=True, slots=True)
class Mapping:
    """What a type becomes. `schema` is required and without default; `always_optional` overrides the column.

    `zero` stands for an unknown value of a NOT NULL column, `unavailable` for an unchanged TOAST value (None:
    null, or the zero value). `copy` is the SELECT expression of a snapshot, `{}` for the quoted column;
    `binary` says whether that arrives in the type's send format.
    """

    schema: Schema
    op: Op
    parse: Parse
    zero: Value
    unavailable: Value = None
    parameter: int = 0
    copy: str = "{}::text"
    binary: bool = False
    always_optional: bool = False


_UNCAST: Final = "{}"
_DEBEZIUM: Final = "io.debezium."
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
        return Mapping(schema, op, parse, 0, copy=_UNCAST, binary=True)
    if name in _PLAIN_STRINGS or name in _STRING_SEMANTIC:
        return _string(name, options)
    match name:
        case "bool":
            return Mapping(BOOLEAN, Op.BOOLEAN, text_values.boolean, False, copy=_UNCAST, binary=True)
        case "float4":
            return Mapping(FLOAT, Op.FLOAT, text_values.single, 0.0, copy=_UNCAST, binary=True)
        case "float8":
            return Mapping(DOUBLE, Op.DOUBLE, text_values.double, 0.0, copy=_UNCAST, binary=True)
        case "numeric":
            return _numeric(typmod, options)
        case "money":
            return _money(options)
        case "bytea":
            return _bytea(options)
        case "bit" | "varbit":
            return _bits(name, typmod)
        case "interval":
            return _interval(options)
        case "hstore":
            return _hstore(options)
        case "point":
            return _point()
        case "geometry" | "geography":
            return _geometry(name)
        case "vector" | "halfvec" | "sparsevec":
            return _vector(name)
        case _:
            return _temporal(name, typmod, options)


def _string(name: str, options: EnvelopeOptions) -> Mapping:
    schema = STRING
    if name in _STRING_SEMANTIC:
        schema = semantic(STRING, _DEBEZIUM + _STRING_SEMANTIC[name])
    mapping = Mapping(schema, Op.STRING, text_values.string, "", options.placeholder_text)
    if name == "uuid":
        return replace(mapping, op=Op.UUID, copy=_UNCAST, binary=True)
    if name == "jsonb":
        return replace(mapping, op=Op.JSONB, copy=_UNCAST, binary=True)
    if name in _TEXT_ON_THE_WIRE:
        return replace(mapping, copy=_UNCAST, binary=True)
    return replace(mapping, copy=_OUTPUT_FUNCTION.get(name, mapping.copy))


def _enum(info: TypeInfo, options: EnvelopeOptions) -> Mapping:
    schema = semantic(STRING, _DEBEZIUM + "data.Enum", ("allowed", ",".join(info.enum_labels)))
    return Mapping(
        schema, Op.STRING, text_values.string, "", options.placeholder_text, copy=_UNCAST, binary=True
    )


def precision_and_scale(typmod: int) -> tuple[int, int]:
    """A numeric's modifier. A negative scale becomes 0 with that many digits more (debezium/12 no. 10)."""
    precision, scale = (typmod - 4) >> 16 & 0xFFFF, (typmod - 4) & 0x7FF
    if scale >= 1024:
        scale -= 2048
    return (precision, scale) if scale >= 0 else (precision - scale, 0)


VARIABLE_DECIMAL: Final = struct(
    _DEBEZIUM + "data.VariableScaleDecimal",
    ("scale", INT32),
    ("value", BYTES),
    version=1,
    doc="Variable scaled decimal",
)


def _numeric(typmod: int, options: EnvelopeOptions) -> Mapping:
    if options.decimal_handling is DecimalHandling.DOUBLE:
        return Mapping(DOUBLE, Op.NUMERIC_DOUBLE, text_values.numeric_double, 0.0, copy=_UNCAST, binary=True)
    if options.decimal_handling is DecimalHandling.STRING:
        zero, unavailable = "", options.placeholder_text
        return Mapping(
            STRING,
            Op.NUMERIC_STRING,
            text_values.numeric_string,
            zero,
            unavailable,
            copy=_UNCAST,
            binary=True,
        )
    if typmod == -1:
        read: Parse = text_values.variable_decimal
        return Mapping(VARIABLE_DECIMAL, Op.VARIABLE_DECIMAL, read, (0, b"\x00"), copy=_UNCAST, binary=True)
    precision, scale = precision_and_scale(typmod)
    schema, parse = decimal(scale, precision), text_values.decimal(scale)
    return Mapping(schema, Op.DECIMAL, parse, b"\x00", parameter=scale, copy=_UNCAST, binary=True)


def _money(options: EnvelopeOptions) -> Mapping:
    digits = options.money_fraction_digits
    amount = text_values.money(digits)
    match options.decimal_handling:
        case DecimalHandling.PRECISE:
            parse: Parse = lambda text: exact_numbers.unscaled_bytes(amount(text)[0])  # noqa: E731
            return Mapping(decimal(digits, None), Op.PYTHON, parse, b"\x00")
        case DecimalHandling.DOUBLE:
            parse = lambda text: float(exact_numbers.plain_text(*amount(text)))  # noqa: E731
            return Mapping(DOUBLE, Op.PYTHON, parse, 0.0)
        case DecimalHandling.STRING:
            parse = lambda text: exact_numbers.plain_text(*amount(text))  # noqa: E731
            return Mapping(STRING, Op.PYTHON, parse, "")


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
        schema, _BYTEA_OPS[mode], text_values.bytea(mode), zero, unavailable, copy=_UNCAST, binary=True
    )


def _bits(name: str, typmod: int) -> Mapping:
    length = typmod if typmod != -1 else _UNBOUNDED
    if length == 1:
        return Mapping(BOOLEAN, Op.PYTHON, text_values.bit, False)
    schema = semantic(BYTES, _DEBEZIUM + "data.Bits", ("length", str(length)))
    return Mapping(schema, Op.PYTHON, text_values.bits, b"")


def _interval(options: EnvelopeOptions) -> Mapping:
    if options.interval_handling is IntervalHandling.STRING:
        schema = semantic(STRING, _DEBEZIUM + "time.Interval")
        return Mapping(schema, Op.PYTHON, interval.interval_text, "P0Y0M0DT0H0M0S")
    schema = semantic(INT64, _DEBEZIUM + "time.MicroDuration")
    return Mapping(schema, Op.PYTHON, interval.interval_count, 0)


def _hstore(options: EnvelopeOptions) -> Mapping:
    placeholder = options.placeholder_text
    if options.hstore_handling is HstoreHandling.JSON:
        unavailable = f'{{"{placeholder}":"{placeholder}"}}'
        schema = semantic(STRING, _DEBEZIUM + "data.Json")
        return Mapping(schema, Op.PYTHON, text_values.hstore_json, "{}", unavailable)
    schema = Schema(Type.MAP, keys=STRING, values=STRING.as_optional())
    empty: list[Value] = []
    return Mapping(schema, Op.PYTHON, text_values.hstore_map, empty, [(placeholder, placeholder)])


POINT: Final = struct(
    _DEBEZIUM + "data.geometry.Point",
    ("x", DOUBLE),
    ("y", DOUBLE),
    ("wkb", BYTES.as_optional()),
    ("srid", INT32.as_optional()),
    version=1,
    doc="Geometry (POINT)",
)


def _point() -> Mapping:
    return Mapping(POINT, Op.PYTHON, text_values.point, text_values.point_value(0.0, 0.0))


_EMPTY_COLLECTION: Final = bytes.fromhex("010700000000000000")


def _geometry(name: str) -> Mapping:
    title = name.capitalize()
    schema = struct(
        f"{_DEBEZIUM}data.geometry.{title}",
        ("wkb", BYTES),
        ("srid", INT32.as_optional()),
        version=1,
        doc=title,
    )
    return Mapping(schema, Op.PYTHON, text_values.geometry, (_EMPTY_COLLECTION, None), always_optional=True)


SPARSE_VECTOR: Final = struct(
    _DEBEZIUM + "data.SparseDoubleVector",
    ("dimensions", INT16),
    ("vector", Schema(Type.MAP, keys=INT16, values=DOUBLE)),
    version=1,
    doc="Sparse double vector",
)


def _vector(name: str) -> Mapping:
    empty: list[Value] = []
    if name == "sparsevec":
        return Mapping(SPARSE_VECTOR, Op.PYTHON, text_values.sparse_vector, (0, empty))
    item, title = (DOUBLE, "DoubleVector") if name == "vector" else (FLOAT, "FloatVector")
    schema = semantic(array(item), f"{_DEBEZIUM}data.{title}")
    return Mapping(schema, Op.PYTHON, text_values.vector, empty)


def _temporal(name: str, typmod: int, options: EnvelopeOptions) -> Mapping | None:
    mode = options.time_precision
    digits = typmod if 0 <= typmod <= 6 else 6
    match name:
        case "date":
            return _date(mode)
        case "time":
            return _time(mode, digits)
        case "timestamp":
            return _timestamp(mode, digits)
        case "timestamptz":
            schema = semantic(STRING, _DEBEZIUM + "time.ZonedTimestamp")
            zero = "1970-01-01T00:00:00Z"
            parse = timestamptz_parser(digits)
            return Mapping(schema, Op.TIMESTAMPTZ, parse, zero, parameter=digits, copy=_UNCAST, binary=True)
        case "timetz":
            schema = semantic(STRING, _DEBEZIUM + "time.ZonedTime")
            parse_zoned: Parse = lambda text: temporal.iso_time(temporal.parse_timetz(text))  # noqa: E731
            return Mapping(schema, Op.PYTHON, parse_zoned, "00:00:00Z")
        case _:
            return None


def _time_schema(base: Schema, name: str) -> Schema:
    return semantic(base, f"{_DEBEZIUM}time.{name}")


def _date(mode: TimePrecision) -> Mapping:
    if mode is TimePrecision.ISOSTRING:
        parse: Parse = lambda text: f"{temporal.iso_date(temporal.parse_date(text))}Z"  # noqa: E731
        return Mapping(
            _time_schema(STRING, "IsoDate"), Op.DATE_ISO, parse, "1970-01-01Z", copy=_UNCAST, binary=True
        )
    schema = _time_schema(INT32, "Date")
    if mode is TimePrecision.CONNECT:
        schema = semantic(INT32, "org.apache.kafka.connect.data.Date")
    return Mapping(schema, Op.DATE, temporal.parse_date, 0, copy=_UNCAST, binary=True)


def _time(mode: TimePrecision, digits: int) -> Mapping:
    if mode is TimePrecision.ISOSTRING:
        parse: Parse = lambda text: temporal.iso_time(temporal.parse_time(text))  # noqa: E731
        return Mapping(
            _time_schema(STRING, "IsoTime"), Op.TIME_ISO, parse, "00:00:00Z", copy=_UNCAST, binary=True
        )
    if mode is TimePrecision.CONNECT:
        schema, op, divisor, factor = (
            semantic(INT32, "org.apache.kafka.connect.data.Time"),
            Op.TIME_MS,
            1000,
            1,
        )
    elif mode is TimePrecision.ADAPTIVE and digits <= 3:
        schema, op, divisor, factor = _time_schema(INT32, "Time"), Op.TIME_MS, 1000, 1
    elif mode is TimePrecision.NANOSECONDS:
        schema, op, divisor, factor = _time_schema(INT64, "NanoTime"), Op.TIME_NS, 1, 1000
    else:
        schema, op, divisor, factor = _time_schema(INT64, "MicroTime"), Op.TIME_US, 1, 1
    return Mapping(
        schema, op, lambda text: temporal.parse_time(text) // divisor * factor, 0, copy=_UNCAST, binary=True
    )


def _timestamp(mode: TimePrecision, digits: int) -> Mapping:
    adaptive = mode in (TimePrecision.ADAPTIVE, TimePrecision.ADAPTIVE_TIME_MICROSECONDS)
    if mode is TimePrecision.ISOSTRING:
        schema, zero = _time_schema(STRING, "IsoTimestamp"), "1970-01-01T00:00:00Z"
        return Mapping(schema, Op.TIMESTAMP_ISO, _timestamp_iso, zero, copy=_UNCAST, binary=True)
    if mode is TimePrecision.CONNECT:
        schema, op, per_second = (
            semantic(INT64, "org.apache.kafka.connect.data.Timestamp"),
            Op.TIMESTAMP_MS,
            1000,
        )
    elif adaptive and digits <= 3:
        schema, op, per_second = _time_schema(INT64, "Timestamp"), Op.TIMESTAMP_MS, 1000
    elif mode is TimePrecision.NANOSECONDS:
        schema, op, per_second = _time_schema(INT64, "NanoTimestamp"), Op.TIMESTAMP_NS, 1_000_000_000
    else:
        schema, op, per_second = _time_schema(INT64, "MicroTimestamp"), Op.TIMESTAMP_US, 1_000_000
    return Mapping(schema, op, _timestamp_parser(per_second), 0, copy=_UNCAST, binary=True)


def _timestamp_parser(per_second: int) -> Parse:
    def parse(text: bytes) -> int:
        if text in temporal.TIMESTAMP_INFINITY_MS:
            return temporal.infinite_count(text, per_second)
        return temporal.timestamp_count(temporal.parse_timestamp(text), per_second)

    return parse


def _timestamp_iso(text: bytes) -> str:
    infinite = text in temporal.TIMESTAMP_INFINITY_MS
    value = temporal.infinite_timestamp(text) if infinite else temporal.parse_timestamp(text)
    return temporal.iso_timestamp(value)


def timestamptz_parser(digits: int) -> Parse:
    """ZonedTimestamp with that many digits of fraction; infinities stay words."""

    def parse(text: bytes) -> str:
        if text in temporal.TIMESTAMP_INFINITY_MS:
            return text.decode()
        return temporal.zoned_timestamp(temporal.parse_timestamptz(text), digits)

    return parse


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
