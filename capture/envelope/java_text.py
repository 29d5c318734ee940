"""Numbers and strings as Java prints them, for byte-equal JSON (debezium/02 section 3.1)."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from typing import Final

_ESCAPES: Final = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    0x08: "\\b",
    0x09: "\\t",
    0x0A: "\\n",
    0x0C: "\\f",
    0x0D: "\\r",
    0x22: '\\"',
    0x5C: "\\\\",
}
_NEEDS_ESCAPE: Final = re.compile('[\x00-\x1f"\\\\\U00010000-\U0010ffff]')
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")
_PLAIN_BYTES: Final = re.compile(rb"[ !#-\[\]-\x7f]*").fullmatch

SIGNED_INFINITY: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}


def _surrogates(match: re.Match[str]) -> str:
    code = ord(match.group()) - 0x10000
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


def json_string(text: str) -> str:
    """A quoted JSON string as Jackson's byte generator writes it: astral characters as surrogate pairs."""
    if _NEEDS_ESCAPE.search(text):
        text = _ASTRAL.sub(_surrogates, text.translate(_ESCAPES))
    return f'"{text}"'


def json_string_raw(text: str) -> str:
    """The same for Jackson's character generator, which leaves astral characters alone (Avro schemas)."""
    return f'"{text.translate(_ESCAPES)}"'


def json_bytes(raw: bytes) -> bytes:
    """A quoted JSON string from UTF-8 bytes; malformed sequences become U+FFFD, as in Java."""
    if _PLAIN_BYTES(raw):
        return b'"%b"' % raw
    return json_string(raw.decode("utf-8", "replace")).encode()


def _java(digits: str, exponent: int, negative: bool) -> str:
    """Java's layout of 0.d1d2… x 10^exponent; Double.toString."""
    sign = "-" if negative else ""
    if -3 < exponent <= 7:
        if exponent <= 0:
            return f"{sign}0.{'0' * -exponent}{digits}"
        digits = digits.ljust(exponent + 1, "0")
        return f"{sign}{digits[:exponent]}.{digits[exponent:]}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _layout(shortest: str, two_digits: str) -> str:
    """Rearrange Python's `d.ddde+xx`. A one-digit form gives way to the nearest one of two digits."""
    negative = shortest.startswith("-")
    mantissa, _, power = shortest.lstrip("-").partition("e")
    if "." not in mantissa:
        mantissa, _, power = two_digits.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).rstrip("0") or "0"
    return _java(digits, int(power) + 1, negative)


def java_double(value: float) -> str:
    """Double.toString of Java 19 and later: the shortest digits that read back as the same value."""
    if value != value:
        return "NaN"
    if value in SIGNED_INFINITY:
        return SIGNED_INFINITY[value]
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    text = repr(value)
    if 0.001 <= abs(value) < 10_000_000:
        return text
    if "e" not in text:
        whole, _, fraction = text.lstrip("-").partition(".")
        digits = (whole + fraction).lstrip("0")
        point = len(whole) if whole != "0" else len(digits) - len(fraction)
        return _java(digits.rstrip("0"), point, value < 0)
    return _layout(text, f"{value:.1e}")


def to_float32(value: float) -> float:
    """The nearest single-precision value; beyond its range an infinity."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def java_float(value: float) -> str:
    """Float.toString of Java 19 and later, of a value that is a single-precision float."""
    if value != value or value in SIGNED_INFINITY or value == 0:
        return java_double(value)
    for digits in range(9):
        text = f"{value:.{digits}e}"
        if to_float32(float(text)) == value:
            return _layout(_trim(text), f"{value:.1e}")
        above = _next_up(text)
        if _is_power_of_two(value) and to_float32(float(above)) == value:
            return _layout(_trim(above), f"{value:.1e}")
    raise AssertionError("nine digits identify every float")  # pragma: no cover


def _trim(text: str) -> str:
    mantissa, _, power = text.partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{power}"


def _is_power_of_two(value: float) -> bool:
    """Below a power of two floats are twice as dense, so the nearest digits may lie outside its interval."""
    return math.frexp(abs(value))[0] == 0.5


def _next_up(text: str) -> str:
    mantissa, _, power = text.partition("e")
    negative = mantissa.startswith("-")
    fraction = len(mantissa.partition(".")[2])
    number = int(mantissa.lstrip("-").replace(".", "")) + 1
    return f"{'-' if negative else ''}{Decimal(number).scaleb(int(power) - fraction):e}"


def big_decimal(unscaled: int, scale: int) -> str:
    """BigDecimal.toString."""
    sign, digits = ("-" if unscaled < 0 else ""), format(Decimal(abs(unscaled)), "f")
    adjusted = len(digits) - 1 - scale
    if scale == 0:
        return sign + digits
    if scale > 0 and adjusted >= -6:
        digits = digits.rjust(scale + 1, "0")
        return f"{sign}{digits[:-scale]}.{digits[-scale:]}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}E{adjusted:+d}"
