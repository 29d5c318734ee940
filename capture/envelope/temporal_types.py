"""date, time and timestamp under `time.precision.mode` (debezium/03 section 3)."""

from __future__ import annotations

from capture.envelope import temporal
from capture.envelope.connect import INT32, INT64, STRING, semantic
from capture.envelope.mapping import DEBEZIUM, UNCAST, Mapping, Op, time_schema
from capture.envelope.options import TimePrecision
from capture.envelope.text_values import Parse


def temporal_mapping(name: str, typmod: int, mode: TimePrecision) -> Mapping | None:
    """The mapping of a temporal type but interval, None for any other type."""
    digits = typmod if 0 <= typmod <= 6 else 6
    match name:
        case "date":
            return _date(mode)
        case "time":
            return _time(mode, digits)
        case "timestamp":
            return _timestamp(mode, digits)
        case "timestamptz":
            schema = semantic(STRING, DEBEZIUM + "time.ZonedTimestamp")
            zero = "1970-01-01T00:00:00Z"
            parse = timestamptz_parser(digits)
            return Mapping(schema, Op.TIMESTAMPTZ, parse, zero, parameter=digits, copy=UNCAST, binary=True)
        case "timetz":
            schema = semantic(STRING, DEBEZIUM + "time.ZonedTime")
            parse_zoned: Parse = lambda text: temporal.iso_time(temporal.parse_timetz(text))  # noqa: E731
            return Mapping(schema, Op.PYTHON, parse_zoned, "00:00:00Z")
        case _:
            return None


def _date(mode: TimePrecision) -> Mapping:
    if mode is TimePrecision.ISOSTRING:
        parse: Parse = lambda text: f"{temporal.iso_date(temporal.parse_date(text))}Z"  # noqa: E731
        return Mapping(
            time_schema(STRING, "IsoDate"), Op.DATE_ISO, parse, "1970-01-01Z", copy=UNCAST, binary=True
        )
    schema = time_schema(INT32, "Date")
    if mode is TimePrecision.CONNECT:
        schema = semantic(INT32, "org.apache.kafka.connect.data.Date")
    return Mapping(schema, Op.DATE, temporal.parse_date, 0, copy=UNCAST, binary=True)


def _time(mode: TimePrecision, digits: int) -> Mapping:
    if mode is TimePrecision.ISOSTRING:
        parse: Parse = lambda text: temporal.iso_time(temporal.parse_time(text))  # noqa: E731
        return Mapping(
            time_schema(STRING, "IsoTime"), Op.TIME_ISO, parse, "00:00:00Z", copy=UNCAST, binary=True
        )
    if mode is TimePrecision.CONNECT:
        schema, op, divisor, factor = (
            semantic(INT32, "org.apache.kafka.connect.data.Time"),
            Op.TIME_MS,
            1000,
            1,
        )
    elif mode is TimePrecision.ADAPTIVE and digits <= 3:
        schema, op, divisor, factor = time_schema(INT32, "Time"), Op.TIME_MS, 1000, 1
    elif mode is TimePrecision.NANOSECONDS:
        schema, op, divisor, factor = time_schema(INT64, "NanoTime"), Op.TIME_NS, 1, 1000
    else:
        schema, op, divisor, factor = time_schema(INT64, "MicroTime"), Op.TIME_US, 1, 1
    return Mapping(
        schema, op, lambda text: temporal.parse_time(text) // divisor * factor, 0, copy=UNCAST, binary=True
    )


def _timestamp(mode: TimePrecision, digits: int) -> Mapping:
    adaptive = mode in (TimePrecision.ADAPTIVE, TimePrecision.ADAPTIVE_TIME_MICROSECONDS)
    if mode is TimePrecision.ISOSTRING:
        schema, zero = time_schema(STRING, "IsoTimestamp"), "1970-01-01T00:00:00Z"
        return Mapping(schema, Op.TIMESTAMP_ISO, _timestamp_iso, zero, copy=UNCAST, binary=True)
    if mode is TimePrecision.CONNECT:
        schema, op, per_second = (
            semantic(INT64, "org.apache.kafka.connect.data.Timestamp"),
            Op.TIMESTAMP_MS,
            1000,
        )
    elif adaptive and digits <= 3:
        schema, op, per_second = time_schema(INT64, "Timestamp"), Op.TIMESTAMP_MS, 1000
    elif mode is TimePrecision.NANOSECONDS:
        schema, op, per_second = time_schema(INT64, "NanoTimestamp"), Op.TIMESTAMP_NS, 1_000_000_000
    else:
        schema, op, per_second = time_schema(INT64, "MicroTimestamp"), Op.TIMESTAMP_US, 1_000_000
    return Mapping(schema, op, _timestamp_parser(per_second), 0, copy=UNCAST, binary=True)


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
