"""Values that an UPDATE did not send: the fixture, and debezium/03 section 7 for the other modes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import pytest

from capture.envelope import COMPILED, Column, EnvelopeOptions, Table, TypeInfo, new_encoder, plan_for
from capture.envelope.options import (
    BinaryHandling,
    Converter,
    DecimalHandling,
    Encoding,
    HstoreHandling,
    TimePrecision,
)
from protocol.records import records
from tests.capture.envelope import fixtures, frames

PLACEHOLDER: Final = "__debezium_unavailable_value"
JSON: Final = Converter(encoding=Encoding.JSON)
OPTIONS: Final = EnvelopeOptions(topic_prefix="inventory", database="db", key=JSON, value=JSON)


def _type(name: str) -> TypeInfo:
    if name.endswith("[]"):
        return TypeInfo(1, "_" + name[:-2], element=_type(name[:-2]))
    return TypeInfo(1, name)


def _columns(text: str) -> tuple[Column, ...]:
    """`name type [!]`, comma-separated; `!` is NOT NULL."""
    words = (part.split() for part in text.split(","))
    return tuple(Column(word[0], _type(word[1]), nullable=word[-1] != "!") for word in words)


FIXTURE_COLUMNS: Final = _columns(
    "id int4 !, n int4, tx text, vc varchar, by bytea, j jsonb, js json, xm xml, ta text[], ba bytea[], "
    "ia int4[], la int8[], ua uuid[], da date[], na numeric[], h hstore, nu numeric, ct citext, "
    "tsa timestamp[], fa float8[], tsv tsvector, ja jsonb[], nntx text !, nnby bytea !, nnia int4[] !, "
    "nnnu numeric !, sa int2[], ba2 bool[]"
)


def after(columns: tuple[Column, ...], options: EnvelopeOptions, *, compiled: bool) -> Any:
    """The row of an update that sends nothing but the first column."""
    table = Table("public", "t", columns, (columns[0].name,))
    plan = plan_for(table, options, topic="inventory.public.t", ids=lambda subject, schema: 1)
    encoder = new_encoder(options, compiled=compiled)
    encoder.set_relation(7, plan, range(len(columns)))
    encoder.feed(frames.begin(1, 2, 0, 3), 0)
    encoder.feed(frames.update(1, 7, [b"1", *[frames.UNCHANGED] * (len(columns) - 1)]), 0)
    encoder.feed(frames.commit(2, 3, 0), 0)
    (output,) = encoder.take()
    (record,) = records(memoryview(output.batch))
    assert record.value is not None
    return json.loads(record.value)["after"]


@pytest.mark.parametrize("compiled", [False, True] if COMPILED else [False])
def test_the_fixture(compiled: bool) -> None:
    (record,) = fixtures.scenario("toast_bytes")["records"]
    expected = dict(record["value"]["after"])
    found = after(FIXTURE_COLUMNS, OPTIONS, compiled=compiled)
    # These are small in the fixture's row and were sent; nnnu is the row's own value.
    for sent in ("n", "sa", "ba2", "nnnu"):
        expected.pop(sent)
        found.pop(sent)
    assert found == expected


@pytest.mark.parametrize("compiled", [False, True] if COMPILED else [False])
def test_what_debezium_cannot_show_becomes_zero_where_null_is_not_allowed(compiled: bool) -> None:
    """debezium/12 no. 7."""
    columns = _columns("id int4 !, n numeric !, a int2[] !, b bytea !, f float8[]")
    options = replace(OPTIONS, binary_handling=BinaryHandling.BASE64)
    found = after(columns, options, compiled=compiled)
    assert found == {"id": 1, "n": {"scale": 0, "value": "AA=="}, "a": [], "b": "", "f": None}


@pytest.mark.parametrize(
    ("column", "changes", "expected"),
    [
        ("c bytea", {"binary_handling": BinaryHandling.HEX}, PLACEHOLDER),
        ("c bytea", {"binary_handling": BinaryHandling.BASE64_URL_SAFE}, None),
        ("c bytea[]", {"binary_handling": BinaryHandling.HEX}, None),
        ("c hstore", {"hstore_handling": HstoreHandling.MAP}, {PLACEHOLDER: PLACEHOLDER}),
        ("c numeric", {"decimal_handling": DecimalHandling.STRING}, PLACEHOLDER),
        ("c numeric", {"decimal_handling": DecimalHandling.DOUBLE}, None),
        ("c date[]", {"time_precision": TimePrecision.ISOSTRING}, None),
        ("c text", {"unavailable_value_placeholder": "hex:6869"}, "hi"),
        ("c bytea", {"unavailable_value_placeholder": "hex:deadbeef"}, "3q2+7w=="),
        ("c int4[]", {"unavailable_value_placeholder": "hex:01ff"}, [1, -1]),
    ],
)
def test_modes(column: str, changes: dict[str, Any], expected: Any) -> None:
    found = after(_columns(f"id int4 !, {column}"), replace(OPTIONS, **changes), compiled=COMPILED)
    assert found["c"] == expected
