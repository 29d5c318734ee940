"""What fastavro reads in an Avro record is what the JSON record says."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace
from typing import Any

import fastavro
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capture.envelope import COMPILED, Plan, plan_for
from capture.envelope.java_text import to_float32
from capture.envelope.options import DecimalFormat, Encoding, EnvelopeOptions
from protocol.records import records
from tests.capture.envelope.test_both_encoders import Step, perform, prepared, stories


def with_encoding(options: EnvelopeOptions, encoding: Encoding) -> EnvelopeOptions:
    """The same options for another converter."""
    key = replace(options.key, encoding=encoding, decimal_format=DecimalFormat.BASE64)
    value = replace(options.value, encoding=encoding, decimal_format=DecimalFormat.BASE64)
    return replace(options, key=key, value=value)


def run(options: EnvelopeOptions, old: Plan, steps: list[Step]) -> tuple[Plan, list[Any]]:
    """All records that the steps lead to."""
    plan = plan_for(old.table, options, topic=old.topic, ids=lambda subject, schema: 1)
    encoder = prepared(options, plan, compiled=COMPILED)
    outputs = []
    for step in steps:
        found = perform(encoder, step)
        outputs += found if step[0] == "take" else []
    outputs += encoder.take(include_open=True)
    written = [output for output in outputs if output.topic == plan.topic]
    return plan, [record for output in written for record in records(memoryview(output.batch))]


class Reader:
    """Turns what fastavro reads into JsonConverter's form."""

    def __init__(self, text: str) -> None:
        self.text = json.loads(text)
        self.schema = fastavro.parse_schema(without_logical_types(self.text))
        self.named: dict[str, Any] = {}
        self.register(self.text, "")

    def register(self, schema: Any, space: str) -> None:
        """Remember every named type, wherever it is spelt out."""
        if isinstance(schema, list):
            for branch in schema:
                self.register(branch, space)
        elif isinstance(schema, dict):
            if schema["type"] == "record":
                space = schema.get("namespace", space)
                self.named[f"{space}.{schema['name']}"] = schema
            for field in schema.get("fields", ()):
                self.register(field["type"], space)
            for inner in ("items", "values"):
                self.register(schema.get(inner), space)

    def read(self, raw: bytes) -> Any:
        """The value of a Confluent-framed record."""
        assert raw[:5] == b"\x00\x00\x00\x00\x01"
        source = io.BytesIO(raw[5:])
        value = fastavro.schemaless_reader(source, self.schema, None)
        assert source.read() == b""
        return self.shown(self.text, value, "")

    def shown(self, schema: Any, value: Any, space: str) -> Any:
        """One value."""
        if isinstance(schema, list):
            if value is None:
                return None
            schema = next(branch for branch in schema if branch != "null")
        if isinstance(schema, str) and (schema in self.named or f"{space}.{schema}" in self.named):
            schema = self.named.get(schema) or self.named[f"{space}.{schema}"]
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind == "record":
            space = schema.get("namespace", space)
            return {f["name"]: self.shown(f["type"], value[f["name"]], space) for f in schema["fields"]}
        if kind == "array":
            entries = isinstance(schema["items"], dict) and schema["items"].get("name") == "MapEntry"
            shown = [self.shown(schema["items"], item, space) for item in value]
            return [list(item.values()) for item in shown] if entries else shown
        if kind == "map":
            return {key: self.shown(schema["values"], item, space) for key, item in value.items()}
        if kind == "bytes":
            return base64.b64encode(value).decode()
        if kind in ("float", "double"):
            return special(value)
        return value


def without_logical_types(node: Any) -> Any:
    """fastavro then reads the plain values, and does not mind a precision of zero."""
    if isinstance(node, dict):
        return {key: without_logical_types(child) for key, child in node.items() if key != "logicalType"}
    return [without_logical_types(child) for child in node] if isinstance(node, list) else node


def special(number: float) -> float | str:
    """NaN and the infinities are strings in JSON."""
    if number != number:
        return "NaN"
    return {float("inf"): "Infinity", float("-inf"): "-Infinity"}.get(number, number)


def narrowed(ours: Any, theirs: Any) -> Any:
    """JSON prints a float32 by its own shortest digits: read them as one where Avro had one."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {key: narrowed(ours.get(key), value) for key, value in theirs.items()}
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [narrowed(a, b) for a, b in zip(ours, theirs, strict=True)]
    if isinstance(ours, float) and isinstance(theirs, float) and ours != theirs and to_float32(ours) == ours:
        return to_float32(theirs)
    return theirs


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=200)
@given(stories(st.just(Encoding.AVRO)))
def test_avro_says_what_json_says(story: tuple[Any, list[Step]]) -> None:
    (options, old), steps = story
    avro_plan, avro = run(with_encoding(options, Encoding.AVRO), old, steps)
    _, plain = run(with_encoding(options, Encoding.JSON), old, steps)
    _, full = run(with_encoding(options, Encoding.JSON_WITH_SCHEMA), old, steps)
    assert len(avro) == len(plain) == len(full)
    assert avro_plan.value_schema is not None
    values = Reader(avro_plan.value_schema)
    keys = None if avro_plan.key_schema is None else Reader(avro_plan.key_schema)
    for a, p, f in zip(avro, plain, full, strict=True):
        assert a.timestamp == p.timestamp == f.timestamp
        assert a.headers == p.headers == f.headers
        for reader, ours, theirs, whole in ((values, a.value, p.value, f.value), (keys, a.key, p.key, f.key)):
            if ours is None:
                assert theirs is None
                assert whole is None
                continue
            assert reader is not None
            seen, said = reader.read(ours), json.loads(theirs)
            assert seen == narrowed(seen, said)
            assert list(seen) == list(said)
            assert json.loads(whole)["payload"] == said
            assert whole.endswith(b',"payload":' + theirs + b"}")
