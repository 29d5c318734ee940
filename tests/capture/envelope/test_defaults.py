"""Default expressions beyond those of the fixture (debezium/03 section 6)."""

from __future__ import annotations

from typing import Any

import pytest

from capture.envelope import Column, EnvelopeOptions, TypeInfo
from capture.envelope.column_types import map_column
from capture.envelope.defaults import schema_default
from capture.envelope.options import DecimalHandling, TimePrecision


def default(kind: str | TypeInfo, expression: str, typmod: int = -1, **changes: Any) -> Any:
    """The schema default of a column."""
    info = TypeInfo(1, kind) if isinstance(kind, str) else kind
    column = Column("c", info, typmod, default=expression)
    options = EnvelopeOptions(topic_prefix="p", database="d", **changes)
    mapping = map_column(column, options)
    assert mapping is not None
    return schema_default(column, mapping, options)


@pytest.mark.parametrize(
    ("kind", "expression", "expected"),
    [
        ("int4", "5", 5),
        ("int4", "'-3'::integer", -3),
        ("int4", "nextval('s'::regclass)", 0),
        ("int4", "(1 + 2)", None),
        ("int4", "'99999999999'::integer", None),
        ("bool", "true", True),
        ("bool", "false", False),
        ("bool", "NULL::boolean", None),
        ("bool", "f()", False),
        ("text", "'it''s'::text", "it's"),
        ("text", "('a'::text || 'b'::text)", "a"),
        ("text", "NULL::text", None),
        ("text", "''::text", ""),
        ("text", "(now())::text", ""),
        ("text", "upper('x'::text)", ""),
        ("bpchar", "'x'::bpchar", "x"),
        ("float8", "'NaN'::double precision", None),
        ("float8", "1.5", 1.5),
        ("jsonb", "jsonb_build_object()", "{}"),
        ("uuid", "gen_random_uuid()", "00000000-0000-0000-0000-000000000000"),
        ("date", "CURRENT_DATE", 0),
        ("date", "'infinity'::date", -2_147_472_692),
        ("time", "'01:02'::time without time zone", 3_720_000_000),
        ("timestamptz", "'2020-01-02 03:04:05+02'::timestamp with time zone", "2020-01-02T01:04:05.000000Z"),
        ("timestamptz", "(now() AT TIME ZONE 'utc'::text)", "1970-01-01T00:00:00.000000Z"),
        ("interval", "now() - now()", None),
        ("interval", "'1 day'::interval", 86_400_000_000),
        ("money", "1.5", None),
        ("bytea", "'\\x00'::bytea", None),
        ("inet", "'127.0.0.1'::inet", None),
        ("hstore", "'a=>1'::hstore", None),
    ],
)
def test_expressions(kind: str, expression: str, expected: Any) -> None:
    assert default(kind, expression) == expected


def test_modifiers_and_modes() -> None:
    assert default("numeric", "1.5", (10 << 16 | 2) + 4) == b"\x00\x96"
    assert default("numeric", "f()", (10 << 16 | 2) + 4) == b"\x00"
    assert default("numeric", "1.5") is None
    assert default("numeric", "1.5", decimal_handling=DecimalHandling.DOUBLE) == 1.5
    assert default("timestamptz", "now()", 3) == "1970-01-01T00:00:00.000Z"
    assert default("timestamp", "now()", time_precision=TimePrecision.ISOSTRING) == "1970-01-01T00:00:00Z"
    assert default("bit", "'1'::\"bit\"", 1) is True
    assert default("bit", "B'101'::\"bit\"", 3) == b"\x05"
    assert default("bit", "f()", 3) == b""


def test_enums_and_domains() -> None:
    mood = TypeInfo(1, "mood", "e", "app", enum_labels=("sad", "ok"))
    assert default(mood, "'ok'::mood") == "ok"
    assert default(mood, "'ok'::app.mood") == "ok"
    assert default(mood, "other()") is None
    domain = TypeInfo(2, "d", "d", "public", base=TypeInfo(23, "int4"))
    assert default(domain, "5") is None
    assert default(TypeInfo(3, "_int4", element=TypeInfo(23, "int4")), "'{1}'::integer[]") is None
