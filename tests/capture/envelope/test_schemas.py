"""Schema texts: what the fixtures do not show (debezium/01 section 2, debezium/02 section 2.2)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import pytest

from capture.envelope import Column, EnvelopeOptions, InvalidName, Table, TypeInfo, plan_for, topic_name
from capture.envelope.avro_schema import avro_text
from capture.envelope.connect import BYTES, DOUBLE, INT16, INT32, STRING, Schema, Type, array, decimal, struct
from capture.envelope.json_schema import json_schema_text
from capture.envelope.names import adjust, sanitize_topic
from capture.envelope.options import Converter, DecimalFormat, Encoding, NameAdjustment

OPTIONS: Final = EnvelopeOptions(topic_prefix="inventory", database="db")


def plan(table: Table, **changes: Any) -> Any:
    """The plan of a table."""
    options = replace(OPTIONS, **changes)
    topic = topic_name(options, table.schema, table.name)
    return plan_for(table, options, topic=topic, ids=lambda subject, schema: 1)


def table(*names: str, name: str = "t") -> Table:
    """A table of integers."""
    return Table("public", name, tuple(Column(column, TypeInfo(23, "int4")) for column in names))


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("inventory.My-Schema.Order Items$1", "inventory.My-Schema.Order_Items_1"),
        ("inventory.public.weird.dot", "inventory.public.weird.dot"),
        ("a.naïve😀", "a.na_ve__"),
        (".", "_"),
        ("..", "__"),
        ("x" * 300, "x" * 249),
    ],
)
def test_topics_are_sanitized(name: str, topic: str) -> None:
    assert sanitize_topic(name) == topic


@pytest.mark.parametrize(
    ("name", "avro", "unicode"),
    [
        ("total-amount", "total_amount", "total_u002damount"),
        ("1st", "_1st", "_u0031st"),
        ("naïve", "na_ve", "na_u00efve"),
        ("a.b", "a_b", "a_u002eb"),
        ("select", "select", "select"),
        ("_ok", "_ok", "_u005fok"),
        ("a b", "a_b", "a_u0020b"),
    ],
)
def test_field_names(name: str, avro: str, unicode: str) -> None:
    assert adjust(name, NameAdjustment.NONE, dots=False) == name
    assert adjust(name, NameAdjustment.AVRO, dots=False) == avro
    assert adjust(name, NameAdjustment.AVRO_UNICODE, dots=False) == unicode


def test_schema_names() -> None:
    topic = "inventory.My-Schema.Order_Items_1"
    assert adjust(topic, NameAdjustment.AVRO, dots=True) == "inventory.My_Schema.Order_Items_1"
    unicode = adjust(topic, NameAdjustment.AVRO_UNICODE, dots=True)
    assert unicode == "inventory.My_u002dSchema.Order_u005fItems_u005f1"


def test_illegal_names_are_told_with_what_helps() -> None:
    with pytest.raises(InvalidName, match=r"public\.t: 'a b' .*illegal character ' '.*adjustment\.mode"):
        plan(table("a b"))
    with pytest.raises(InvalidName, match="'1st'"):
        plan(table("1st"))
    assert plan(table("a b"), value=Converter(encoding=Encoding.JSON)).value_schema is None


def test_columns_that_become_one_are_refused() -> None:
    """debezium/12 no. 28."""
    with pytest.raises(InvalidName, match=r"'a\.b' and 'a b' both become the field 'a_b'"):
        plan(table("a.b", "a b"), field_name_adjustment=NameAdjustment.AVRO)


def test_subjects_and_ids() -> None:
    asked: list[str] = []

    def ids(subject: str, schema: str) -> int:
        asked.append(subject)
        return 0x01020304 + len(asked)

    made = plan_for(replace(table("id"), key=("id",)), OPTIONS, topic="inventory.public.t", ids=ids)
    assert asked == ["inventory.public.t-key", "inventory.public.t-value"]
    assert made.key is not None
    assert made.key.open == b"\x00\x01\x02\x03\x05"
    assert made.layout.start == b"\x00\x01\x02\x03\x06"


def test_key_and_value_may_differ_in_encoding() -> None:
    made = plan(
        replace(table("id"), key=("id",)),
        key=Converter(encoding=Encoding.JSON),
        value=Converter(encoding=Encoding.JSON_WITH_SCHEMA),
    )
    assert made.key_schema is None
    assert json.loads(made.value_schema)["name"] == "inventory.public.t.Envelope"
    assert made.key.open == b"{"


def test_a_named_type_is_spelt_out_once() -> None:
    number = struct("io.debezium.data.VariableScaleDecimal", ("scale", INT32), ("value", BYTES), version=1)
    row = struct("a.b.Value", ("x", number.as_optional()), ("y", number), ("z", array(number)))
    text = avro_text(row)
    assert text.count('"fields":[{"name":"scale"') == 1
    assert '{"name":"y","type":"io.debezium.data.VariableScaleDecimal"}' in text
    assert '{"name":"z","type":{"type":"array","items":"io.debezium.data.VariableScaleDecimal"}}' in text


def test_maps() -> None:
    plain = Schema(Type.MAP, keys=STRING, values=STRING.as_optional())
    entries = Schema(Type.MAP, keys=INT16, values=DOUBLE)
    assert avro_text(plain) == '{"type":"map","values":["null","string"]}'
    assert avro_text(entries) == (
        '{"type":"array","items":{"type":"record","name":"MapEntry","namespace":"io.confluent.connect.avro",'
        '"fields":[{"name":"key","type":{"type":"int","connect.type":"int16"}},{"name":"value","type":"double"}]}}'
    )
    assert json_schema_text(plain) == (
        '{"type":"map","keys":{"type":"string","optional":false},"values":{"type":"string","optional":true},'
        '"optional":false}'
    )


def test_defaults_in_both_forms() -> None:
    amount = decimal(2, 10).as_optional().with_default(b"\x00\x96")
    assert '"connect.default":"\\u0000\x96"' in avro_text(amount)
    assert avro_text(struct("a.R", ("amount", amount))).endswith(
        '"default":"\\u0000\x96"}],"connect.name":"a.R"}'
    )
    assert '"default":"AJY="' in json_schema_text(amount)
    assert '"default":1.50' in json_schema_text(amount, numeric=True)
    text = STRING.with_default('"\u001f😀é')
    assert '"connect.default":"\\"\\u001F😀é"' in avro_text(text)
    assert '"default":"\\"\\u001F\\uD83D\\uDE00é"' in json_schema_text(text)


def test_numeric_format_reaches_values() -> None:
    column = Column("n", TypeInfo(1700, "numeric"), (10 << 16 | 2) + 4)
    made = plan(
        Table("public", "t", (column,)),
        value=Converter(encoding=Encoding.JSON, decimal_format=DecimalFormat.NUMERIC),
    )
    assert made.row.fields[0].encode(b"-1.50") == b"-1.50"


def test_negative_scale_becomes_zero() -> None:
    """debezium/12 no. 10."""
    column = Column("n", TypeInfo(1700, "numeric"), (5 << 16 | (-2 & 0x7FF)) + 4)
    made = plan(Table("public", "t", (column,)))
    assert '"scale":0,"precision":7' in made.value_schema
