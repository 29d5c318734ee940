"""Single values: Java's number and string forms, and the rarer types (debezium/02 and 03)."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.envelope import (
    MalformedMessage,
    UnrepresentableValue,
    array_text,
    exact_numbers,
    interval,
    java_text,
    temporal,
    text_values,
)
from capture.envelope.connect import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    INT32,
    INT64,
    STRING,
    array,
    decimal,
    semantic,
)
from capture.envelope.connect import (
    struct as record,
)
from capture.envelope.key_header import header_text
from capture.envelope.value_writer import varint


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (9.99e-4, "9.99E-4"),
        (9_999_999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (12_345_678.5, "1.23456785E7"),
        (123_456_789.125, "1.23456789125E8"),
        (1e21, "1.0E21"),
        (5e-324, "4.9E-324"),
        (2e-323, "2.0E-323"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_java_doubles(number: float, text: str) -> None:
    assert java_text.java_double(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.1, "0.1"),
        (16_777_216.0, "1.6777216E7"),
        (1.1754943508222875e-38, "1.1754944E-38"),
        (1.4e-45, "1.4E-45"),
        (3.4028234663852886e38, "3.4028235E38"),
        (1e30, "1.0E30"),
        (math.inf, "Infinity"),
    ],
)
def test_java_floats(number: float, text: str) -> None:
    assert java_text.java_float(java_text.to_float32(number)) == text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_reads_back(number: float) -> None:
    assert java_text.to_float32(float(java_text.java_float(number))) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back(number: float) -> None:
    assert float(java_text.java_double(number)) == number


@pytest.mark.parametrize(
    ("unscaled", "scale", "text"),
    [
        (150, 2, "1.50"),
        (0, 2, "0.00"),
        (1, -3, "1E+3"),
        (1, 7, "1E-7"),
        (1, 6, "0.000001"),
        (-12345, 2, "-123.45"),
        (0, 10, "0E-10"),
        (123, 9, "1.23E-7"),
    ],
)
def test_big_decimals(unscaled: int, scale: int, text: str) -> None:
    assert java_text.big_decimal(unscaled, scale) == text


def test_json_strings() -> None:
    assert (
        java_text.json_string('a"\\\b\f\n\r\t\x1f/<\x7fé😀')
        == '"a\\"\\\\\\b\\f\\n\\r\\t\\u001F/<\x7fé\\uD83D\\uDE00"'
    )
    assert java_text.json_bytes(b"\xff") == '"\ufffd"'.encode()


@given(st.integers(-(2**200), 2**200))
def test_unscaled_bytes_are_the_shortest(number: int) -> None:
    raw = exact_numbers.unscaled_bytes(number)
    assert int.from_bytes(raw, "big", signed=True) == number
    assert len(raw) == 1 or int.from_bytes(raw[1:], "big", signed=True) != number


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_read_back(number: int) -> None:
    raw, value = varint(number), 0
    for place, byte in enumerate(raw):
        assert (byte > 127) == (place < len(raw) - 1)
        value |= (byte & 127) << 7 * place
    assert value >> 1 ^ -(value & 1) == number


def test_numbers_longer_than_python_reads_at_once() -> None:
    digits = b"9" * 20_000
    assert exact_numbers.parse_numeric(digits + b".5") == (10**20_001 // 1 - 5, 1)
    assert exact_numbers.plain_text(10**5000, 2).endswith("0.00")


@given(st.integers(-3_000_000, 10_000_000))
def test_the_calendar_goes_both_ways(days: int) -> None:
    assert temporal.days_from_civil(*temporal.civil_from_days(days)) == days


@pytest.mark.parametrize(
    ("text", "micros", "iso"),
    [
        (b"1 year 2 mons 3 days 04:05:06.78", 37_091_106_780_000, "P1Y2M3DT4H5M6.78S"),
        (b"-3 days", -259_200_000_000, "P0Y0M-3DT0H0M0S"),
        (b"-1 mons +2 days -00:00:00.5", -2_457_000_500_000, "P0Y-1M2DT0H0M-0.5S"),
        (b"00:00:00", 0, "P0Y0M0DT0H0M0S"),
        (b"178000000 years", 2**63 - 1, "P178000000Y0M0DT0H0M0S"),
        (b"infinity", 2**63 - 1, "infinity"),
    ],
)
def test_intervals(text: bytes, micros: int, iso: str) -> None:
    assert interval.interval_count(text) == micros
    assert interval.interval_text(text) == iso


@pytest.mark.parametrize("text", [b"", b"P1D", b"1 year 2 years", b"soon", b"1:2:3"])
def test_intervals_in_another_style_are_refused(text: bytes) -> None:
    with pytest.raises(MalformedMessage, match="intervalstyle=postgres"):
        interval.parse_interval(text)


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        (b"{}", []),
        (b"{1,NULL,3}", [b"1", None, b"3"]),
        (b'{a,"NULL","b,c","x\\"y\\\\z",""}', [b"a", b"NULL", b"b,c", b'x"y\\z', b""]),
        (b"[0:1]={1,2}", [b"1", b"2"]),
        (b"{{1,2},{3,4}}", [[b"1", b"2"], [b"3", b"4"]]),
    ],
)
def test_arrays(text: bytes, elements: list[Any]) -> None:
    assert array_text.parse_array(text) == elements


@pytest.mark.parametrize("text", [b"", b"{", b"{1", b"{1,}x", b'{"a}', b"{1}}", b"{" * 2000, b"{1,,2}"])
def test_broken_arrays(text: bytes) -> None:
    with pytest.raises(MalformedMessage):
        array_text.parse_array(text)


def test_hstore() -> None:
    text = rb'"a"=>"1", "b"=>NULL, "c d"=>"x\"y", "NULL"=>"NULL"'
    assert text_values.hstore_json(text) == r'{"a":"1","b":null,"c d":"x\"y","NULL":"NULL"}'
    assert text_values.hstore_map(b"") == []
    for broken in (b'"a"', b'"a"=>', b'"a"=>1', b'"a"=>"1""b"=>"2"', b"a=>1"):
        with pytest.raises(MalformedMessage):
            array_text.parse_hstore(broken)


@pytest.mark.parametrize(
    ("text", "unscaled"),
    [(b"$1,234.56", 123_456), (b"-$1.50", -150), (b"($1.50)", -150), (b"$0.005", 1), (b"3", 300)],
)
def test_money(text: bytes, unscaled: int) -> None:
    assert text_values.money(2)(text) == (unscaled, 2)


def test_bits() -> None:
    assert text_values.bits(b"10101") == b"\x15"
    assert text_values.bits(b"1111000010100101") == b"\xa5\xf0"
    assert text_values.bits(b"") == text_values.bits(b"000") == b""
    with pytest.raises(MalformedMessage):
        text_values.bits(b"102")


def test_geometry_keeps_its_bytes() -> None:
    with_srid = struct.pack("<BIIdd", 1, 0x20000001, 4326, 1.0, 2.0)
    assert text_values.geometry(with_srid.hex().encode()) == (with_srid, 4326)
    plain = struct.pack(">BIdd", 0, 1, 1.0, 2.0)
    assert text_values.geometry(plain.hex().encode()) == (plain, None)
    with pytest.raises(MalformedMessage):
        text_values.geometry(b"0101")


def test_nan_in_an_array_of_numerics_spoils_it() -> None:
    parse = text_values.array(text_values.finite(text_values.numeric_double), None)
    assert parse(b"{1,NULL}") == [1.0, None]
    with pytest.raises(UnrepresentableValue):
        parse(b"{1,NaN}")


def test_the_placeholder_uuid() -> None:
    assert text_values.uuid_of(b"__debezium_unavailable_value") == "b68a35a7-17ad-35b3-af2a-ae46edb4545a"


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (INT32, 5, "5"),
        (BOOLEAN, True, "true"),
        (STRING, 'a"\\b', '"a\\"\\\\b"'),
        (STRING.as_optional(), None, "null"),
        (STRING.with_default("d"), None, '"d"'),
        (BYTES, b"\x00\x96", '"AJY="'),
        (decimal(2, 10), b"\x00\x96", "1.50"),
        (DOUBLE, 1e7, "1.0E7"),
        (array(INT32), [1, 2], "[1,2]"),
        (record("r", ("a", INT32), ("b", STRING)), (1, "x"), '{"a":1,"b":"x"}'),
        (semantic(INT32, "org.apache.kafka.connect.data.Date"), 18_321, "2020-02-29"),
        (
            semantic(INT64, "org.apache.kafka.connect.data.Timestamp"),
            1_577_934_245_678,
            "2020-01-02T03:04:05.678Z",
        ),
        (semantic(INT32, "org.apache.kafka.connect.data.Time"), 14_706_789, "04:05:06.789Z"),
    ],
)
def test_key_headers(schema: Any, value: Any, text: str) -> None:
    assert header_text(schema)(value) == text
