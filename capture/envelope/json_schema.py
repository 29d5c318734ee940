"""JsonConverter's schema text and values of a Connect schema (debezium/02 section 3.1)."""

from __future__ import annotations

from capture.envelope.avro_schema import scalar_text
from capture.envelope.connect import Schema, Type
from capture.envelope.java_text import json_string


def json_schema_text(schema: Schema, *, field: str | None = None, numeric: bool = False) -> str:
    """The `schema` member of a message; `numeric` is `decimal.format=NUMERIC`, which defaults follow."""
    parts = [f'"type":"{schema.type}"']
    if schema.type is Type.STRUCT:
        fields = ",".join(json_schema_text(f.schema, field=f.name, numeric=numeric) for f in schema.fields)
        parts.append(f'"fields":[{fields}]')
    elif schema.type is Type.ARRAY:
        assert schema.items is not None
        parts.append(f'"items":{json_schema_text(schema.items, numeric=numeric)}')
    elif schema.type is Type.MAP:
        assert schema.keys is not None
        assert schema.values is not None
        parts.append(f'"keys":{json_schema_text(schema.keys, numeric=numeric)}')
        parts.append(f'"values":{json_schema_text(schema.values, numeric=numeric)}')
    parts.append(f'"optional":{"true" if schema.optional else "false"}')
    if schema.name is not None:
        parts.append(f'"name":{json_string(schema.name)}')
    if schema.version is not None:
        parts.append(f'"version":{schema.version}')
    if schema.doc is not None:
        parts.append(f'"doc":{json_string(schema.doc)}')
    if schema.parameters:
        pairs = ",".join(f"{json_string(k)}:{json_string(v)}" for k, v in schema.parameters)
        parts.append(f'"parameters":{{{pairs}}}')
    if schema.default is not None:
        parts.append(f'"default":{scalar_text(schema, schema.default, numeric=numeric)}')
    if field is not None:
        parts.append(f'"field":{json_string(field)}')
    return f"{{{','.join(parts)}}}"
