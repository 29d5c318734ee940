"""Exact numbers: Postgres' numeric in text and base-10000 form, Java's unscaled bytes (debezium/03)."""

from __future__ import annotations

import re
import struct
from decimal import Decimal
from typing import Final

from capture.envelope.errors import MalformedMessage

_NUMERIC: Final = re.compile(rb"-?\d+(?:\.(\d+))?", re.ASCII).fullmatch
_HEADER: Final = struct.Struct(">hhHh")

#: Postgres' text of a special numeric -> what `decimal.handling.mode=string` writes (debezium/12 no. 9).
SPECIAL: Final = {b"NaN": "NAN", b"Infinity": "POSITIVE_INFINITY", b"-Infinity": "NEGATIVE_INFINITY"}
_SPECIAL_SIGNS: Final = {0xC000: b"NaN", 0xD000: b"Infinity", 0xF000: b"-Infinity"}
_MOST_DIGITS: Final = 4096


def parse_numeric(text: bytes) -> tuple[int, int]:
    """Unscaled value and scale of a finite numeric."""
    match = _NUMERIC(text)
    if match is None:
        raise MalformedMessage("Postgres sent a numeric that is not a plain decimal number")
    fraction = match.group(1)
    digits = text if fraction is None else text.replace(b".", b"", 1)
    if len(digits) > _MOST_DIGITS:  # int() refuses more than 4300 digits, Decimal does not
        return int(Decimal(digits.decode())), len(fraction or b"")
    return int(digits), len(fraction or b"")


def numeric_text(raw: bytes) -> bytes:
    """Numeric's send format -> what numeric_out prints (debezium/10 section 7)."""
    if len(raw) < 8:
        raise MalformedMessage("a binary numeric is shorter than its header")
    count, weight, sign, scale = _HEADER.unpack_from(raw)
    if sign in _SPECIAL_SIGNS:
        return _SPECIAL_SIGNS[sign]
    if sign not in (0, 0x4000) or count < 0 or len(raw) != 8 + 2 * count or not 0 <= scale <= 16_383:
        raise MalformedMessage("a binary numeric contradicts its header")
    digits = struct.unpack_from(f">{count}H", raw, 8)
    if any(digit > 9999 for digit in digits):
        raise MalformedMessage("a binary numeric has a digit above 9999")
    text = "".join([f"{digit:04d}" for digit in digits])
    point = (weight + 1) * 4
    if point <= 0:
        whole, fraction = "0", "0" * -point + text
    else:
        whole, fraction = text[:point].ljust(point, "0").lstrip("0") or "0", text[point:]
    out = whole if not scale else f"{whole}.{fraction[:scale].ljust(scale, '0')}"
    return f"-{out}".encode() if sign else out.encode()


def power_of_ten(exponent: int) -> int:
    """10 to a power that is not negative."""
    power: int = 10**exponent
    return power


def rescale(unscaled: int, scale: int, target: int) -> int:
    """The unscaled value at another scale; digits that do not fit are rounded half up."""
    if target >= scale:
        return unscaled * power_of_ten(target - scale)
    divisor = power_of_ten(scale - target)
    quotient, remainder = divmod(abs(unscaled), divisor)
    quotient += remainder * 2 >= divisor
    return -quotient if unscaled < 0 else quotient


def strip_zeros(unscaled: int, scale: int) -> tuple[int, int]:
    """Trailing zeros of the fraction removed, as VariableScaleDecimal has it (debezium/12 no. 19)."""
    while scale > 0 and unscaled % 10 == 0:
        unscaled //= 10
        scale -= 1
    return unscaled, scale


def unscaled_bytes(number: int) -> bytes:
    """BigInteger.toByteArray: the shortest big-endian two's complement."""
    bits = number.bit_length() if number >= 0 else (number + 1).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def plain_text(unscaled: int, scale: int) -> str:
    """Plain notation with exactly `scale` decimals."""
    digits = format(Decimal(abs(unscaled)), "f")
    sign = "-" if unscaled < 0 else ""
    if not scale:
        return sign + digits
    digits = digits.rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"
