"""When two schema texts are the same schema."""

import json

import pytest

from gateway.registry.same_schema import schema_digest


def same(one: object, other: object) -> bool:
    return schema_digest(json.dumps(one), "AVRO") == schema_digest(json.dumps(other), "AVRO")


def test_blanks_and_order_do_not_count() -> None:
    one = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
    other = '{ "fields" : [ {"type": "int", "name": "a"} ], "name" : "R", "type" : "record" }'
    assert schema_digest(one, "AVRO") == schema_digest(other, "AVRO")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"type": "string"}, "string"),
        ({"type": {"type": "string"}}, "string"),
        ({"type": "array", "items": {"type": "long"}}, {"type": "array", "items": "long"}),
        ({"type": "map", "values": {"type": "long"}}, {"type": "map", "values": "long"}),
        (["null", {"type": "int"}], ["null", "int"]),
        (
            {"type": "record", "name": "R", "namespace": "a.b", "fields": []},
            {"type": "record", "name": "a.b.R", "fields": []},
        ),
        (
            {
                "type": "record",
                "name": "R",
                "namespace": "a",
                "fields": [{"name": "f", "type": {"type": "enum", "name": "E", "symbols": ["X"]}}],
            },
            {
                "type": "record",
                "name": "a.R",
                "fields": [
                    {"name": "f", "type": {"type": "enum", "name": "E", "namespace": "a", "symbols": ["X"]}}
                ],
            },
        ),
    ],
)
def test_what_means_the_same_is_the_same(one: object, other: object) -> None:
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("string", "bytes"),
        (["null", "int"], ["int", "null"]),
        ({"type": "long", "logicalType": "timestamp-micros"}, "long"),
        (
            {"type": "record", "name": "R", "namespace": "a", "fields": []},
            {"type": "record", "name": "R", "namespace": "b", "fields": []},
        ),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]},
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": 0}]},
        ),
        (
            {"type": "record", "name": "R", "fields": [], "connect.name": "x"},
            {"type": "record", "name": "R", "fields": []},
        ),
    ],
)
def test_what_means_something_else_is_not(one: object, other: object) -> None:
    assert not same(one, other)


def test_types_do_not_mix() -> None:
    assert schema_digest('{"type": "string"}', "JSON") != schema_digest('{"type": "string"}', "AVRO")
    assert schema_digest("message  A {}", "PROTOBUF") == schema_digest("message A {}", "PROTOBUF")
