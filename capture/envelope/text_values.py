"""Column text -> Connect value, one function per semantic type (debezium/03).

None means written as null; UnrepresentableValue means null too, but an error in a NOT NULL column.

These are the reference: the generated encoder and the compiled one have faster ways for the common types and
must agree with these.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
import uuid
from collections.abc import Callable
from typing import Final, TypeAlias

from capture.envelope import array_text, exact_numbers
from capture.envelope.connect import Value
from capture.envelope.errors import MalformedMessage, UnrepresentableValue
from capture.envelope.java_text import java_double, json_string_raw, to_float32
from capture.envelope.options import BinaryHandling

Parse: TypeAlias = Callable[[bytes], Value]

_FLOAT: Final = re.compile(rb"-?(?:\d+\.?\d*(?:e[+-]?\d+)?|NaN|Infinity)", re.ASCII | re.IGNORECASE).fullmatch
_INTEGER: Final = re.compile(rb"-?\d{1,20}", re.ASCII).fullmatch
_NUMBERS: Final = re.compile(rb"-?\d+\.?\d*(?:e[+-]?\d+)?", re.ASCII).sub
_MICROSECONDS: Final = re.compile(rb"(\.\d{3})\d+", re.ASCII).sub
_BITS: Final = re.compile(rb"[01]*").fullmatch
_POINT_WKB: Final = struct.Struct("<BIdd")
_SRID_FLAG: Final = 0x2000_0000


def _malformed(what: str) -> MalformedMessage:
    return MalformedMessage(f"Postgres sent text that is no {what}")


def boolean(text: bytes) -> bool:
    """`t` or `f`."""
    if text not in (b"t", b"f"):
        raise _malformed("boolean")
    return text == b"t"


def integer(bits: int, *, unsigned: bool = False) -> Parse:
    """A decimal integer of that many bits."""
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)

    def parse(text: bytes) -> int:
        if not _INTEGER(text) or not low <= (number := int(text)) <= high:
            raise _malformed(f"{bits}-bit integer")
        return number

    return parse


def double(text: bytes) -> float:
    """A double, NaN and the infinities included."""
    if not _FLOAT(text):
        raise _malformed("floating-point number")
    return float(text)


def single(text: bytes) -> float:
    """A single-precision float."""
    return to_float32(double(text))


def string(text: bytes) -> str:
    """Text; malformed UTF-8 becomes U+FFFD, as in Java."""
    return text.decode("utf-8", "replace")


def _hex(text: bytes) -> bytes:
    if text[:2] != b"\\x":
        raise _malformed("bytea in hex form (bytea_output=hex)")
    try:
        return bytes.fromhex(text[2:].decode("ascii"))
    except ValueError as error:
        raise _malformed("bytea in hex form (bytea_output=hex)") from error


def binary_form(mode: BinaryHandling) -> Callable[[bytes], bytes | str]:
    """Raw bytes as `binary.handling.mode` writes them."""
    match mode:
        case BinaryHandling.BYTES:
            return bytes
        case BinaryHandling.BASE64:
            return lambda raw: base64.b64encode(raw).decode()
        case BinaryHandling.BASE64_URL_SAFE:
            return lambda raw: base64.urlsafe_b64encode(raw).decode()
        case BinaryHandling.HEX:
            return lambda raw: raw.hex()


def bytea(mode: BinaryHandling) -> Parse:
    """bytea in hex output form."""
    form = binary_form(mode)
    return lambda text: form(_hex(text))


def unknown(mode: BinaryHandling) -> Parse:
    """A type without a mapping: the bytes of its text (`include.unknown.datatypes`)."""
    form = binary_form(mode)
    return lambda text: form(bytes(text))


def _no_decimal(text: bytes) -> UnrepresentableValue:
    return UnrepresentableValue(
        f"{text.decode()} cannot be written under decimal.handling.mode=precise; use double or string"
    )


def geometric(mode: BinaryHandling) -> Parse:
    """An unmapped geometric type: its text with Java's numbers, as the JDBC driver prints it."""
    form = binary_form(mode)

    def parse(text: bytes) -> bytes | str:
        return form(_NUMBERS(lambda match: java_double(float(match.group())).encode(), text))

    return parse


def whole_milliseconds(element: Parse) -> Parse:
    """An element of a time array, which Debezium reads in milliseconds whatever its precision."""
    return lambda text: element(_MICROSECONDS(rb"\1", text))


def decimal(scale: int) -> Parse:
    """Connect Decimal: unscaled bytes; NaN and the infinities have none."""

    def parse(text: bytes) -> bytes:
        if text in exact_numbers.SPECIAL:
            raise _no_decimal(text)
        return exact_numbers.unscaled_bytes(exact_numbers.rescale(*exact_numbers.parse_numeric(text), scale))

    return parse


def variable_decimal(text: bytes) -> tuple[Value, ...]:
    """VariableScaleDecimal: scale and unscaled bytes."""
    if text in exact_numbers.SPECIAL:
        raise _no_decimal(text)
    unscaled, scale = exact_numbers.strip_zeros(*exact_numbers.parse_numeric(text))
    return scale, exact_numbers.unscaled_bytes(unscaled)


def numeric_double(text: bytes) -> float:
    """`decimal.handling.mode=double`."""
    if text not in exact_numbers.SPECIAL:
        exact_numbers.parse_numeric(text)
    return float(text)


def numeric_string(text: bytes) -> str:
    """`decimal.handling.mode=string`."""
    if text in exact_numbers.SPECIAL:
        return exact_numbers.SPECIAL[text]
    exact_numbers.parse_numeric(text)
    return text.decode("ascii")


def money(fraction_digits: int) -> Callable[[bytes], tuple[int, int]]:
    """Money's text in a dollar-like locale -> unscaled value at `money.fraction.digits`."""
    keep = re.compile(rb"[^0-9.]").sub

    def parse(text: bytes) -> tuple[int, int]:
        digits = keep(b"", text)
        if not re.fullmatch(rb"\d+(\.\d+)?", digits):
            raise _malformed("amount of money in a dollar-like lc_monetary")
        unscaled, scale = exact_numbers.parse_numeric(digits)
        unscaled = exact_numbers.rescale(unscaled, scale, fraction_digits)
        return (-unscaled if text.startswith(b"(") or b"-" in text else unscaled), fraction_digits

    return parse


def bit(text: bytes) -> bool:
    """bit(1) and varbit(1)."""
    if not _BITS(text) or len(text) > 1:
        raise _malformed("single bit")
    return text == b"1"


def bits(text: bytes) -> bytes:
    """A bit string read as an integer, in little-endian bytes without trailing zero bytes."""
    if not _BITS(text):
        raise _malformed("bit string")
    number = int(text, 2) if text else 0
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def hstore_json(text: bytes) -> str:
    """hstore as compact JSON."""
    pairs = array_text.parse_hstore(text)
    return "{" + ",".join(f"{json_string_raw(k)}:{_json_or_null(v)}" for k, v in pairs) + "}"


def _json_or_null(text: str | None) -> str:
    return "null" if text is None else json_string_raw(text)


def hstore_map(text: bytes) -> list[tuple[Value, Value]]:
    """hstore as a Connect map."""
    return list(array_text.parse_hstore(text))


def _floats(text: bytes) -> list[float]:
    return [double(part) for part in text.split(b",")] if text else []


def vector(text: bytes) -> list[Value]:
    """pgvector's vector and halfvec."""
    if text[:1] != b"[" or text[-1:] != b"]":
        raise _malformed("vector")
    return list(_floats(text[1:-1]))


def sparse_vector(text: bytes) -> tuple[Value, ...]:
    """pgvector's sparsevec `{1:1.5,3:2}/5`: dimensions and a map."""
    match = re.fullmatch(rb"\{([^{}]*)\}/(\d{1,10})", text)
    if match is None:
        raise _malformed("sparsevec")
    pairs: list[tuple[Value, Value]] = []
    for part in match.group(1).split(b",") if match.group(1) else []:
        index, _, number = part.partition(b":")
        pairs.append((integer(32)(index), double(number)))
    return int(match.group(2)), pairs


def point_value(x: float, y: float) -> tuple[Value, ...]:
    """Debezium's Point: coordinates, little-endian WKB, no SRID."""
    return x, y, _POINT_WKB.pack(1, 1, x, y), None


def point(text: bytes) -> tuple[Value, ...]:
    """Postgres' own point."""
    numbers = _floats(text[1:-1]) if text[:1] == b"(" and text[-1:] == b")" else []
    if len(numbers) != 2:
        raise _malformed("point")
    return point_value(*numbers)


def geometry(text: bytes) -> tuple[Value, ...]:
    """PostGIS' hex EWKB, unchanged; the SRID is copied out when it is there."""
    try:
        raw = bytes.fromhex(text.decode("ascii"))
    except ValueError as error:
        raise _malformed("geometry in hex EWKB") from error
    if len(raw) < 5:
        raise _malformed("geometry in hex EWKB")
    order = "<" if raw[0] == 1 else ">"
    flags = struct.unpack_from(f"{order}I", raw, 1)[0]
    if not flags & _SRID_FLAG:
        return raw, None
    if len(raw) < 9:
        raise _malformed("geometry in hex EWKB")
    return raw, struct.unpack_from(f"{order}i", raw, 5)[0]


def array(element: Parse, missing: Value, delimiter: bytes = b",") -> Parse:
    """An array; a nested dimension is a null element (debezium/12 no. 15).

    `missing` stands where the element schema is required: the type's zero value.
    """

    def parse(text: bytes) -> list[Value]:
        items = array_text.parse_array(text, delimiter)
        return [missing if item is None or isinstance(item, list) else element(item) for item in items]

    return parse


def finite(element: Parse) -> Parse:
    """An element of a numeric array: NaN and the infinities make the whole array null in every mode."""

    def parse(text: bytes) -> Value:
        if text in exact_numbers.SPECIAL:
            raise UnrepresentableValue(f"{text.decode()} in an array of numeric cannot be written")
        return element(text)

    return parse


def uuid_of(placeholder: bytes) -> str:
    """Java's UUID.nameUUIDFromBytes: version 3 without a namespace."""
    return str(uuid.UUID(bytes=hashlib.md5(placeholder, usedforsecurity=False).digest(), version=3))
