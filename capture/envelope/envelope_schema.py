"""The Connect schemas around a row: key, envelope, source, transaction, logical message (debezium/01)."""

from __future__ import annotations

from typing import Final

from capture.envelope.connect import BYTES, INT64, STRING, Field, Schema, Type, semantic, struct

CONNECTOR: Final = "postgresql"
SNAPSHOT_ALLOWED: Final = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
_OPTIONAL_INT64: Final = INT64.as_optional()
_OPTIONAL_STRING: Final = STRING.as_optional()

SNAPSHOT: Final = (
    semantic(STRING, "io.debezium.data.Enum", ("allowed", SNAPSHOT_ALLOWED))
    .as_optional()
    .with_default("false")
)

SOURCE: Final = struct(
    "io.debezium.connector.postgresql.Source",
    ("version", STRING),
    ("connector", STRING),
    ("name", STRING),
    ("ts_ms", INT64),
    ("snapshot", SNAPSHOT),
    ("db", STRING),
    ("sequence", _OPTIONAL_STRING),
    ("ts_us", _OPTIONAL_INT64),
    ("ts_ns", _OPTIONAL_INT64),
    ("schema", STRING),
    ("table", STRING),
    ("txId", _OPTIONAL_INT64),
    ("lsn", _OPTIONAL_INT64),
    ("xmin", _OPTIONAL_INT64),
    ("origin", _OPTIONAL_STRING),
    ("origin_lsn", _OPTIONAL_INT64),
    version=1,
)

TRANSACTION: Final = struct(
    "event.block",
    ("id", STRING),
    ("total_order", INT64),
    ("data_collection_order", INT64),
    version=1,
    optional=True,
)

MESSAGE_KEY: Final = struct(
    "io.debezium.connector.postgresql.MessageKey", ("prefix", _OPTIONAL_STRING), version=1
)


def key_schema(prefix: str, fields: tuple[Field, ...]) -> Schema:
    """`<prefix>.Key`; `prefix` is the adjusted topic name."""
    return Schema(Type.STRUCT, name=f"{prefix}.Key", fields=fields)


def envelope_schema(prefix: str, fields: tuple[Field, ...]) -> Schema:
    """`<prefix>.Envelope` around `<prefix>.Value`."""
    row = Schema(Type.STRUCT, optional=True, name=f"{prefix}.Value", fields=fields)
    return struct(
        f"{prefix}.Envelope",
        ("before", row),
        ("after", row),
        ("source", SOURCE),
        ("transaction", TRANSACTION),
        ("op", STRING),
        ("ts_ms", _OPTIONAL_INT64),
        ("ts_us", _OPTIONAL_INT64),
        ("ts_ns", _OPTIONAL_INT64),
        version=2,
    )


def message_schema(binary_as_bytes: bool) -> Schema:
    """A logical decoding message; its content follows `binary.handling.mode`."""
    content = BYTES if binary_as_bytes else STRING
    message = struct(
        "io.debezium.connector.postgresql.Message",
        ("prefix", _OPTIONAL_STRING),
        ("content", content.as_optional()),
        version=1,
    )
    return struct(
        "io.debezium.connector.postgresql.MessageValue",
        ("op", STRING),
        ("ts_ms", _OPTIONAL_INT64),
        ("source", SOURCE),
        ("transaction", TRANSACTION),
        ("message", message),
        version=1,
    )
