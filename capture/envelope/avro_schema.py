"""Avro schema text from a Connect schema, property for property as Confluent's AvroData (debezium/02 2.2)."""

from __future__ import annotations

import base64
import re
from typing import Final

from capture.envelope.connect import Schema, Type, Value
from capture.envelope.errors import InvalidName
from capture.envelope.java_text import big_decimal, java_double, java_float, json_string, json_string_raw

_PRIMITIVES: Final = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT: "float",
    Type.DOUBLE: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_LOGICAL: Final = {
    "org.apache.kafka.connect.data.Decimal": "decimal",
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
_PRECISION: Final = "connect.decimal.precision"
_UNKNOWN_PRECISION: Final = 64
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
MAP_ENTRY: Final = "io.confluent.connect.avro.MapEntry"


def avro_text(schema: Schema) -> str:
    """The schema as the registry stores it; raises InvalidName for what Avro cannot spell."""
    return _Writer().root(schema)


def _check(name: str) -> str:
    if not _NAME(name):
        bad = next((c for c in name if not (c.isascii() and (c.isalnum() or c == "_"))), name[:1])
        raise InvalidName(
            f"{name!r} is no Avro name (illegal character {bad!r}); set schema.name.adjustment.mode or "
            "field.name.adjustment.mode to avro or avro_unicode, or use JSON"
        )
    return name


class _Writer:
    """Writes one document: a named type is spelt out once and referred to after that."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.anonymous = 0

    def root(self, schema: Schema) -> str:
        return self.union(schema, None) if schema.optional else self.type(schema, None)

    def union(self, schema: Schema, namespace: str | None) -> str:
        """An optional schema: the default's branch comes first."""
        text = self.type(schema, namespace)
        return f'["null",{text}]' if schema.default is None else f'[{text},"null"]'

    def type(self, schema: Schema, namespace: str | None) -> str:
        """A schema without its optionality."""
        if schema.type is Type.STRUCT:
            return self.record(schema, namespace)
        properties: list[str] = []
        if schema.type is Type.ARRAY:
            assert schema.items is not None
            properties.append(f'"items":{self.nested(schema.items, namespace)}')
            kind = "array"
        elif schema.type is Type.MAP:
            assert schema.keys is not None
            assert schema.values is not None
            if schema.keys.type is Type.STRING and not schema.keys.optional:
                properties.append(f'"values":{self.nested(schema.values, namespace)}')
                kind = "map"
            else:
                properties.append(f'"items":{self.map_entry(schema.keys, schema.values, namespace)}')
                kind = "array"
        else:
            kind = _PRIMITIVES[schema.type]
        if schema.scale is not None:
            precision = dict(schema.parameters).get(_PRECISION, str(_UNKNOWN_PRECISION))
            properties.append(f'"scale":{schema.scale},"precision":{precision}')
        properties += _connect_properties(schema)
        if not properties:
            return f'"{kind}"'
        return f'{{"type":"{kind}",{",".join(properties)}}}'

    def nested(self, schema: Schema, namespace: str | None) -> str:
        return self.union(schema, namespace) if schema.optional else self.type(schema, namespace)

    def map_entry(self, keys: Schema, values: Schema, namespace: str | None) -> str:
        if MAP_ENTRY in self.known:
            return json_string_raw(MAP_ENTRY)
        self.known.add(MAP_ENTRY)
        space, _, name = MAP_ENTRY.rpartition(".")
        key, value = self.nested(keys, space), self.nested(values, space)
        fields = f'[{{"name":"key","type":{key}}},{{"name":"value","type":{value}}}]'
        return f'{{"type":"record","name":"{name}","namespace":"{space}","fields":{fields}}}'

    def record(self, schema: Schema, enclosing: str | None) -> str:
        full_name = schema.name or self.default_name()
        space, _, name = full_name.rpartition(".")
        if full_name in self.known:
            return json_string_raw(name if space == (enclosing or "") else full_name)
        self.known.add(full_name)
        for part in full_name.split("."):
            _check(part)
        head = f'{{"type":"record","name":"{name}"'
        if space != (enclosing or ""):
            head += f',"namespace":"{space}"'
        fields = ",".join(self.field(field.name, field.schema, space) for field in schema.fields)
        properties = "".join("," + text for text in _connect_properties(schema))
        return f'{head},"fields":[{fields}]{properties}}}'

    def field(self, name: str, schema: Schema, namespace: str) -> str:
        text = f'{{"name":"{_check(name)}","type":{self.nested(schema, namespace)}'
        if schema.default is not None:
            text += f',"default":{default_text(schema, schema.default)}'
        elif schema.optional:
            text += ',"default":null'
        return text + "}"

    def default_name(self) -> str:
        self.anonymous += 1
        return f"io.confluent.connect.avro.ConnectDefault{self.anonymous if self.anonymous > 1 else ''}"


def _connect_properties(schema: Schema) -> list[str]:
    properties: list[str] = []
    if schema.doc is not None:
        properties.append(f'"connect.doc":{json_string_raw(schema.doc)}')
    if schema.version is not None:
        properties.append(f'"connect.version":{schema.version}')
    if schema.parameters:
        pairs = ",".join(f"{json_string_raw(k)}:{json_string_raw(v)}" for k, v in schema.parameters)
        properties.append(f'"connect.parameters":{{{pairs}}}')
    if schema.default is not None:
        properties.append(f'"connect.default":{default_text(schema, schema.default)}')
    if schema.name is not None:
        properties.append(f'"connect.name":{json_string_raw(schema.name)}')
    if schema.type in (Type.INT8, Type.INT16):
        properties.append(f'"connect.type":"{schema.type}"')
    if schema.name in _LOGICAL:
        properties.append(f'"logicalType":"{_LOGICAL[schema.name]}"')
    return properties


def default_text(schema: Schema, value: Value) -> str:
    """A default in Avro's JSON form: bytes are an ISO-8859-1 string."""
    if isinstance(value, bytes):
        return json_string_raw(value.decode("latin-1"))
    return scalar_text(schema, value, raw=True)


def scalar_text(schema: Schema, value: Value, *, raw: bool = False, numeric: bool = False) -> str:
    """A scalar default as JSON; `numeric` is `decimal.format=NUMERIC`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = java_float(value) if schema.type is Type.FLOAT else java_double(value)
        return text if text[-1].isdigit() else f'"{text}"'
    if isinstance(value, str):
        return json_string_raw(value) if raw else json_string(value)
    if isinstance(value, bytes):
        if numeric and schema.scale is not None:
            return big_decimal(int.from_bytes(value, "big", signed=True), schema.scale)
        return f'"{base64.b64encode(value).decode()}"'
    raise TypeError(f"no default of {schema.type} can be written: {type(value).__name__}")
