"""A table's plan: its schemas and, for each field of key and row, how Postgres' bytes become output bytes.

Both encoders run the same plan, so nothing about a type, a mode or a converter is decided anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from capture.envelope.avro_schema import avro_text
from capture.envelope.column_types import map_column
from capture.envelope.connect import Field, Schema, Value
from capture.envelope.defaults import schema_default
from capture.envelope.envelope_schema import envelope_schema, key_schema
from capture.envelope.errors import EnvelopeError, InvalidName, UnrepresentableValue
from capture.envelope.java_text import json_string
from capture.envelope.json_schema import json_schema_text
from capture.envelope.key_header import header_text
from capture.envelope.layout import ValueLayout, avro_layout, json_layout
from capture.envelope.mapping import Mapping, Op
from capture.envelope.names import field_name, schema_name
from capture.envelope.options import Converter, DecimalFormat, Encoding, EnvelopeOptions
from capture.envelope.table import Column, Table
from capture.envelope.text_values import Parse
from capture.envelope.value_writer import Write, avro_bytes, avro_writer, json_writer

Ids: TypeAlias = Callable[[str, str], int]

HEADERS: Final = "__debezium.context."
NEW_KEY, OLD_KEY = "__debezium.newkey", "__debezium.oldkey"


@dataclass(frozen=True, slots=True, eq=False)
class FieldPlan:
    """One field. `prefix` goes before a value, `null` and `unavailable` stand for the whole field.

    `missing` is the value that `null` shows: the type's zero value where null is not allowed.
    `required` says that a value which cannot be written is an error rather than null.
    """

    column: int
    name: str
    op: Op
    parameter: int
    prefix: bytes
    null: bytes
    unavailable: bytes
    required: bool
    parse: Parse
    write: Write
    schema: Schema
    owner: str
    missing: Value

    def encode(self, text: bytes) -> bytes | None:
        """The value's bytes without prefix, None for null: the general way, for every op."""
        value = self.value(text)
        return None if value is None else self.write(value)

    def value(self, text: bytes) -> Value:
        """The Connect value of a column's text; errors name the column."""
        try:
            return self.parse(text)
        except UnrepresentableValue as error:
            if self.required:
                raise UnrepresentableValue(f"{self.owner}, column {self.name}: {error}") from error
            return None
        except EnvelopeError as error:
            raise type(error)(f"{self.owner}, column {self.name}: {error}") from error


@dataclass(frozen=True, slots=True, eq=False)
class StructPlan:
    """A key, or the row in `before` and `after`. `numeric` is `decimal.format=NUMERIC`."""

    json: bool
    numeric: bool
    open: bytes
    close: bytes
    fields: tuple[FieldPlan, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Everything about a table that its rows' bytes depend on. Columns are counted in the table's order.

    `unmapped` names the columns that have no place in the row, to be logged once. `headers` are the encoded
    context headers, `header_count` of them.
    """

    topic: str
    partition: int
    table: Table
    key_schema: str | None
    value_schema: str | None
    key: StructPlan | None
    row: StructPlan
    layout: ValueLayout
    headers: bytes
    header_count: int
    copied: tuple[int, ...]
    copied_binary: tuple[bool, ...]
    copy_expressions: tuple[str, ...]
    unmapped: tuple[str, ...]
    tombstones: bool
    skipped: frozenset[str]

    def key_header(self, texts: Sequence[bytes | None]) -> bytes:
        """The text of a key for the newkey and oldkey headers, from the columns' texts in key order."""
        assert self.key is not None
        members = []
        for field, text in zip(self.key.fields, texts, strict=True):
            value = field.missing if text is None else field.value(text)
            members.append(f"{_header_name(field.name)}:{header_text(field.schema)(value)}")
        return ("{" + ",".join(members) + "}").encode()


def _header_name(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def encode_header(name: str, value: bytes) -> bytes:
    """One record header."""
    return avro_bytes(name.encode()) + avro_bytes(value)  # both formats: zig-zag length, then the bytes


def context_headers(options: EnvelopeOptions) -> tuple[int, bytes]:
    """The four headers of `extended.headers.enabled`, encoded, and how many they are."""
    if not options.extended_headers:
        return 0, b""
    headers = {
        "connectorLogicalName": options.topic_prefix,
        "taskId": "0",
        "connectorName": "postgresql",
        "runId": options.run_id,
    }
    return len(headers), b"".join(
        encode_header(HEADERS + name, value.encode()) for name, value in headers.items()
    )


def plan_for(table: Table, options: EnvelopeOptions, *, topic: str, ids: Ids) -> Plan:
    """Plan a table. `ids` registers an Avro schema under a subject and gives its id.

    Raises InvalidName for names that the encoding cannot spell or that an adjustment makes equal.
    """
    return _Planner(table, options, topic, ids).plan()


class _Planner:
    """Collects what the plan of one table needs."""

    def __init__(self, table: Table, options: EnvelopeOptions, topic: str, ids: Ids) -> None:
        self.table = table
        self.options = options
        self.topic = topic
        self.ids = ids
        self.prefix = schema_name(topic, options)
        self.mappings = [map_column(column, options) for column in table.columns]
        self.schemas = [
            None if mapping is None else self.schema_of(column, mapping)
            for column, mapping in zip(table.columns, self.mappings, strict=True)
        ]

    def schema_of(self, column: Column, mapping: Mapping) -> Schema:
        schema = mapping.schema.as_optional(column.nullable or mapping.always_optional)
        return schema.with_default(schema_default(column, mapping, self.options))

    def plan(self) -> Plan:
        table = self.table
        positions = {column.name: index for index, column in enumerate(table.columns)}
        row = [i for i, column in enumerate(table.columns) if self.mappings[i] and not column.excluded]
        keys = [positions[name] for name in table.key if name in positions and self.mappings[positions[name]]]
        key_text, key = self.key_plan(keys) if keys else (None, None)
        value_text, start, end = self.open(
            "value", envelope_schema(self.prefix, self.connect_fields(row)), self.options.value
        )
        if self.options.value.encoding is Encoding.AVRO:
            layout = avro_layout(start, table, self.options)
        else:
            layout = json_layout(start, end, table, self.options)
        copied = sorted({*row, *keys})
        mappings = [self.mapping(index) for index in copied]
        count, headers = context_headers(self.options)
        return Plan(
            topic=self.topic,
            partition=0,
            table=table,
            key_schema=key_text,
            value_schema=value_text,
            key=key,
            row=self.struct_plan(row, self.options.value, b"", b""),
            layout=layout,
            headers=headers,
            header_count=count,
            copied=tuple(copied),
            copied_binary=tuple(mapping.binary for mapping in mappings),
            copy_expressions=tuple(
                mapping.copy.format(_quote(table.columns[index].name))
                for index, mapping in zip(copied, mappings, strict=True)
            ),
            unmapped=tuple(c.name for c, m in zip(table.columns, self.mappings, strict=True) if m is None),
            tombstones=self.options.tombstones_on_delete,
            skipped=self.options.skipped_operations,
        )

    def mapping(self, index: int) -> Mapping:
        mapping = self.mappings[index]
        assert mapping is not None
        return mapping

    def connect_fields(self, indexes: list[int]) -> tuple[Field, ...]:
        fields: dict[str, str] = {}
        out = []
        for index in indexes:
            column = self.table.columns[index].name
            name = field_name(column, self.options)
            if name in fields:
                raise InvalidName(
                    f"{self.table.qualified_name}: columns {fields[name]!r} and {column!r} both become the "
                    f"field {name!r}; set field.name.adjustment.mode to avro_unicode or none, or exclude one"
                )
            fields[name] = column
            schema = self.schemas[index]
            assert schema is not None
            out.append(Field(name, schema))
        return tuple(out)

    def key_plan(self, keys: list[int]) -> tuple[str | None, StructPlan]:
        schema = key_schema(self.prefix, self.connect_fields(keys))
        text, start, end = self.open("key", schema, self.options.key)
        brackets = (b"", b"") if self.options.key.encoding is Encoding.AVRO else (b"{", b"}")
        return text, self.struct_plan(keys, self.options.key, start + brackets[0], brackets[1] + end)

    def open(self, part: str, schema: Schema, converter: Converter) -> tuple[str | None, bytes, bytes]:
        """The schema's text, and the bytes before and after every value of it."""
        match converter.encoding:
            case Encoding.AVRO:
                try:
                    text = avro_text(schema)
                except InvalidName as error:
                    raise InvalidName(f"{self.table.qualified_name}: {error}") from error
                schema_id = self.ids(f"{self.topic}-{part}", text)
                return text, b"\x00" + schema_id.to_bytes(4, "big"), b""
            case Encoding.JSON_WITH_SCHEMA:
                numeric = converter.decimal_format is DecimalFormat.NUMERIC
                text = json_schema_text(schema, numeric=numeric)
                return text, b'{"schema":%b,"payload":' % text.encode(), b"}"
            case Encoding.JSON:
                return None, b"", b""

    def struct_plan(self, indexes: list[int], converter: Converter, start: bytes, end: bytes) -> StructPlan:
        json = converter.encoding is not Encoding.AVRO
        numeric = converter.decimal_format is DecimalFormat.NUMERIC
        fields = self.connect_fields(indexes)
        return StructPlan(
            json=json,
            numeric=numeric,
            open=start,
            close=end,
            fields=tuple(
                self.field_plan(index, position, field, converter)
                for position, (index, field) in enumerate(zip(indexes, fields, strict=True))
            ),
        )

    def field_plan(self, index: int, position: int, field: Field, converter: Converter) -> FieldPlan:
        mapping, schema = self.mapping(index), field.schema
        substitute = converter.replace_null_with_default
        plain = schema.as_optional(False).with_default(None)
        if converter.encoding is Encoding.AVRO:
            whole, write = (
                avro_writer(schema, substitute=substitute),
                avro_writer(plain, substitute=substitute),
            )
            label, branch = b"", b""
            if schema.optional:
                branch = b"\x02" if schema.default is None else b"\x00"
        else:
            numeric = converter.decimal_format is DecimalFormat.NUMERIC
            whole = json_writer(schema, substitute=substitute, numeric=numeric)
            write = json_writer(plain, substitute=substitute, numeric=numeric)
            label, branch = (b"," if position else b"") + json_string(field.name).encode() + b":", b""
        missing: Value = None
        if not schema.optional and schema.default is None:
            missing = mapping.zero
        null = label + whole(missing)
        return FieldPlan(
            column=index,
            name=field.name,
            op=mapping.op,
            parameter=mapping.parameter,
            prefix=label + branch,
            null=null,
            unavailable=null if mapping.unavailable is None else label + whole(mapping.unavailable),
            required=not schema.optional,
            parse=mapping.parse,
            write=write,
            schema=schema,
            owner=self.table.qualified_name,
            missing=missing,
        )


def _quote(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def copy_columns(plan: Plan) -> list[str]:
    """The SELECT expressions of a snapshot of the table, in the order `feed_copy` expects their fields."""
    return list(plan.copy_expressions)
