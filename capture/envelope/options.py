"""The options that shape events; names, values and defaults are Debezium's (debezium/07 section 4)."""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class TimePrecision(StrEnum):
    """`time.precision.mode`."""

    ADAPTIVE = "adaptive"
    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"
    CONNECT = "connect"
    ISOSTRING = "isostring"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"


class DecimalHandling(StrEnum):
    """`decimal.handling.mode`."""

    PRECISE = "precise"
    DOUBLE = "double"
    STRING = "string"


class BinaryHandling(StrEnum):
    """`binary.handling.mode`."""

    BYTES = "bytes"
    BASE64 = "base64"
    BASE64_URL_SAFE = "base64-url-safe"
    HEX = "hex"


class IntervalHandling(StrEnum):
    """`interval.handling.mode`."""

    NUMERIC = "numeric"
    STRING = "string"


class HstoreHandling(StrEnum):
    """`hstore.handling.mode`."""

    JSON = "json"
    MAP = "map"


class NameAdjustment(StrEnum):
    """`schema.name.adjustment.mode` and `field.name.adjustment.mode`."""

    NONE = "none"
    AVRO = "avro"
    AVRO_UNICODE = "avro_unicode"


class Encoding(StrEnum):
    """What a converter writes."""

    AVRO = "avro"
    JSON = "json"
    JSON_WITH_SCHEMA = "json_with_schema"


class DecimalFormat(StrEnum):
    """JsonConverter's `decimal.format`."""

    BASE64 = "BASE64"
    NUMERIC = "NUMERIC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """`key.converter` or `value.converter` with its own options.

    `replace_null_with_default` is JsonConverter's `replace.null.with.default`, and the opposite of
    AvroConverter's `ignore.default.for.nullables`.
    """

    encoding: Encoding = Encoding.AVRO
    replace_null_with_default: bool = True
    decimal_format: DecimalFormat = DecimalFormat.BASE64


DEFAULT_PLACEHOLDER: Final = "__debezium_unavailable_value"


def new_run_id() -> str:
    """A UUID of version 7 for the `runId` header: new for each start of a capture."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeOptions:
    """Everything that decides about the bytes of an event. `batch_bytes` is uncompressed."""

    topic_prefix: str
    database: str
    topic_delimiter: str = "."
    source_version: str = "3.6.3.Final"
    key: Converter = Converter()
    value: Converter = Converter()
    time_precision: TimePrecision = TimePrecision.ADAPTIVE
    decimal_handling: DecimalHandling = DecimalHandling.PRECISE
    binary_handling: BinaryHandling = BinaryHandling.BYTES
    interval_handling: IntervalHandling = IntervalHandling.NUMERIC
    hstore_handling: HstoreHandling = HstoreHandling.JSON
    money_fraction_digits: int = 2
    include_unknown_datatypes: bool = False
    unavailable_value_placeholder: str = DEFAULT_PLACEHOLDER
    schema_name_adjustment: NameAdjustment = NameAdjustment.NONE
    field_name_adjustment: NameAdjustment = NameAdjustment.NONE
    tombstones_on_delete: bool = True
    skipped_operations: frozenset[str] = frozenset("t")
    extended_headers: bool = True
    compression: str = "none"
    compression_level: int | None = None
    batch_bytes: int = 256 * 1024
    run_id: str = field(default_factory=new_run_id)

    @property
    def placeholder_bytes(self) -> bytes:
        """`unavailable.value.placeholder` as bytes; a value that starts with `hex:` gives them in hex."""
        text = self.unavailable_value_placeholder
        return bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()

    @property
    def placeholder_text(self) -> str:
        """The same for string fields: the UTF-8 decoding of the bytes."""
        return self.placeholder_bytes.decode("utf-8", "replace")
