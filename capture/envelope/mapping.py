"""What a Postgres type becomes: its Connect schema, how its values are read, what stands in for them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from capture.envelope.connect import Schema, Value, semantic
from capture.envelope.text_values import Parse

#: The COPY expression of a column that comes as it is.
UNCAST: Final = "{}"
DEBEZIUM: Final = "io.debezium."


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


def time_schema(base: Schema, name: str) -> Schema:
    """One of Debezium's temporal schemas."""
    return semantic(base, f"{DEBEZIUM}time.{name}")
