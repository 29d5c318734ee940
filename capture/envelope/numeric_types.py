"""numeric and money under `decimal.handling.mode` (debezium/03 section 2)."""

from __future__ import annotations

from typing import Final

from capture.envelope import exact_numbers, text_values
from capture.envelope.connect import BYTES, DOUBLE, INT32, STRING, decimal, struct
from capture.envelope.mapping import DEBEZIUM, UNCAST, Mapping, Op
from capture.envelope.options import DecimalHandling, EnvelopeOptions
from capture.envelope.text_values import Parse


def precision_and_scale(typmod: int) -> tuple[int, int]:
    """A numeric's modifier. A negative scale becomes 0 with that many digits more (debezium/12 no. 10)."""
    precision, scale = (typmod - 4) >> 16 & 0xFFFF, (typmod - 4) & 0x7FF
    if scale >= 1024:
        scale -= 2048
    return (precision, scale) if scale >= 0 else (precision - scale, 0)


VARIABLE_DECIMAL: Final = struct(
    DEBEZIUM + "data.VariableScaleDecimal",
    ("scale", INT32),
    ("value", BYTES),
    version=1,
    doc="Variable scaled decimal",
)


def numeric_mapping(typmod: int, options: EnvelopeOptions) -> Mapping:
    if options.decimal_handling is DecimalHandling.DOUBLE:
        return Mapping(DOUBLE, Op.NUMERIC_DOUBLE, text_values.numeric_double, 0.0, copy=UNCAST, binary=True)
    if options.decimal_handling is DecimalHandling.STRING:
        zero, unavailable = "", options.placeholder_text
        return Mapping(
            STRING,
            Op.NUMERIC_STRING,
            text_values.numeric_string,
            zero,
            unavailable,
            copy=UNCAST,
            binary=True,
        )
    if typmod == -1:
        read: Parse = text_values.variable_decimal
        return Mapping(VARIABLE_DECIMAL, Op.VARIABLE_DECIMAL, read, (0, b"\x00"), copy=UNCAST, binary=True)
    precision, scale = precision_and_scale(typmod)
    schema, parse = decimal(scale, precision), text_values.decimal(scale)
    return Mapping(schema, Op.DECIMAL, parse, b"\x00", parameter=scale, copy=UNCAST, binary=True)


def money_mapping(options: EnvelopeOptions) -> Mapping:
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
