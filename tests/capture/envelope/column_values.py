"""Hypothesis strategies: every type with its text and its send format, tables, options."""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from hypothesis import strategies as st

from capture.envelope import Column, EnvelopeOptions, Table, TypeInfo
from capture.envelope.options import (
    BinaryHandling,
    Converter,
    DecimalFormat,
    DecimalHandling,
    Encoding,
    HstoreHandling,
    IntervalHandling,
    NameAdjustment,
    TimePrecision,
)

Bytes = st.SearchStrategy[bytes]


@dataclass(frozen=True)
class Kind:
    """A type: its modifiers, what the stream sends, what COPY BINARY sends (None: text), its defaults."""

    type: TypeInfo
    text: Bytes
    binary: Bytes | None = None
    typmods: tuple[int, ...] = (-1,)
    defaults: tuple[str, ...] = ()


def _encoded(strategy: st.SearchStrategy[str]) -> Bytes:
    return strategy.map(str.encode)


def _packed(layout: str, low: int, high: int) -> Bytes:
    return st.integers(low, high).map(lambda number: struct.pack(layout, number))


def numeric_binary(number: Decimal) -> bytes:
    """A finite Decimal in numeric's send format."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    text = "".join(map(str, digits)) + "0" * max(0, exponent)
    whole, fraction = (text[:-scale] or "0", text[-scale:].rjust(scale, "0")) if scale else (text, "")
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    fraction = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int((whole + fraction)[i : i + 4]) for i in range(0, len(whole + fraction), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    if not groups:
        sign, weight = 0, 0
    return struct.pack(f">hhHh{len(groups)}H", len(groups), weight, 0x4000 if sign else 0, scale, *groups)


def _plain(number: Decimal) -> bytes:
    text = f"{number:f}"
    return (text.lstrip("-") if not number else text).encode()


_unicode = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=40)
_ascii = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)
_any_text = st.one_of(
    _encoded(_ascii), _encoded(_unicode), st.binary(max_size=12).filter(lambda b: b"\x00" not in b)
)
_decimals = st.builds(
    lambda sign, digits, scale: Decimal((sign, tuple(map(int, str(digits))), -scale)),
    st.integers(0, 1),
    st.sampled_from((2, 6, 12, 18, 19, 24, 31, 37, 38, 39, 60)).flatmap(lambda n: st.integers(0, 10**n)),
    st.integers(0, 40),
)
_special_numerics = st.sampled_from((b"NaN", b"Infinity", b"-Infinity"))
_special_binary = st.sampled_from([struct.pack(">hhHh", 0, 0, sign, 0) for sign in (0xC000, 0xD000, 0xF000)])
_wide_binary = st.builds(
    lambda weight, digit, scale: struct.pack(">hhHhH", 1, weight, 0, scale, digit),
    st.integers(-200, 200),
    st.integers(1, 9999),
    st.integers(0, 900),
)
_infinite = st.sampled_from((b"infinity", b"-infinity"))
_day = st.builds(
    lambda year, month, day, bc: (f"{year:04d}-{month:02d}-{day:02d}", " BC" if bc else ""),
    st.one_of(st.integers(1900, 2100), st.integers(1, 9999), st.integers(1, 294_275)),
    st.integers(1, 12),
    st.integers(1, 31),
    st.integers(0, 9).map(lambda n: n == 0),
)
_clock = st.builds(
    lambda us, digits: (
        f"{us // 3_600_000_000:02d}:{us // 60_000_000 % 60:02d}:{us // 1_000_000 % 60:02d}"
        + (f".{us % 1_000_000:06d}"[: digits + 1] if digits else "")
    ),
    st.one_of(st.integers(0, 86_400_000_000), st.sampled_from((0, 86_400_000_000))),
    st.integers(0, 6),
)
_zone = st.sampled_from(("+00", "+00", "+00", "+02", "-05", "+05:30", "-00:44:30", "+15:59:59"))
_dates = st.builds(lambda day: (day[0] + day[1]).encode(), _day)
_timestamps = st.builds(lambda day, clock: f"{day[0]} {clock}{day[1]}".encode(), _day, _clock)
_timestamptzs = st.builds(
    lambda day, clock, zone: f"{day[0]} {clock}{zone}{day[1]}".encode(), _day, _clock, _zone
)
_timestamp_binary = st.one_of(
    _packed(">q", -(2**57), 2**60),
    _packed(">q", -211_813_488_000_000_000, 9_223_371_331_200_000_000 - 1),
    st.sampled_from([struct.pack(">q", n) for n in (-(2**63), 2**63 - 1, 0, -1)]),
)
_intervals = st.builds(
    lambda years, months, days, clock, sign: " ".join(
        part for part in (f"{years} years", f"{months} mons", f"{days} days", f"{sign}{clock}") if part
    ).encode(),
    st.integers(-178_000_000, 178_000_000),
    st.integers(-11, 11),
    st.integers(-1000, 1000),
    _clock,
    st.sampled_from(("", "-")),
)
_hex = st.binary(max_size=40).map(lambda raw: b"\\x" + raw.hex().encode())
_uuids = st.uuids()


def _quoted(text: bytes) -> bytes:
    return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def _array_of(element: Bytes) -> Bytes:
    items = st.lists(st.one_of(element.map(_quoted), st.just(b"NULL")), max_size=4)
    flat = items.map(lambda parts: b"{" + b",".join(parts) + b"}")
    nested = st.lists(flat, min_size=1, max_size=2).map(lambda parts: b"{" + b",".join(parts) + b"}")
    return st.one_of(flat, flat, flat, nested)


_hstores = st.dictionaries(_unicode, st.one_of(st.none(), _unicode), max_size=3).map(
    lambda pairs: b", ".join(
        _quoted(k.encode()) + b"=>" + (b"NULL" if v is None else _quoted(v.encode()))
        for k, v in pairs.items()
    )
)
_floats = st.one_of(
    st.floats(-1000, 1000, allow_subnormal=False), st.floats(allow_nan=False, allow_infinity=False)
)
_float_text = st.one_of(
    _encoded(_floats.map(repr)),
    _encoded(_floats.map(lambda x: f"{x:g}")),
    st.sampled_from((b"NaN", b"Infinity", b"-Infinity")),
)
_singles = st.floats(width=32, allow_nan=False, allow_infinity=False)


def base(name: str, oid: int) -> TypeInfo:
    """A built-in type."""
    return TypeInfo(oid, name)


def numeric_typmod(precision: int, scale: int) -> int:
    """atttypmod of numeric(precision, scale)."""
    return (precision << 16 | (scale & 0x7FF)) + 4


MOOD: Final = TypeInfo(16_500, "mood", "e", "public", enum_labels=("sad", "ok", "it's"))
_moods = st.sampled_from((b"sad", b"ok", b"it's"))

SCALARS: Final = (
    Kind(
        base("bool", 16),
        st.sampled_from((b"t", b"f")),
        st.binary(min_size=1, max_size=1),
        defaults=("true", "f()"),
    ),
    Kind(
        base("int2", 21),
        _encoded(st.integers(-(2**15), 2**15 - 1).map(str)),
        _packed(">h", -(2**15), 2**15 - 1),
        defaults=("7",),
    ),
    Kind(
        base("int4", 23),
        _encoded(st.integers(-(2**31), 2**31 - 1).map(str)),
        _packed(">i", -(2**31), 2**31 - 1),
        defaults=("'-3'::integer",),
    ),
    Kind(
        base("int8", 20),
        _encoded(st.integers(-(2**63), 2**63 - 1).map(str)),
        _packed(">q", -(2**63), 2**63 - 1),
        defaults=("nextval('s'::regclass)",),
    ),
    Kind(base("oid", 26), _encoded(st.integers(0, 2**32 - 1).map(str)), _packed(">I", 0, 2**32 - 1)),
    Kind(
        base("float4", 700),
        st.one_of(_float_text, _encoded(_singles.map(lambda x: f"{x:.9g}"))),
        st.binary(min_size=4, max_size=4),
        defaults=("1.5",),
    ),
    Kind(
        base("float8", 701),
        _float_text,
        st.binary(min_size=8, max_size=8),
        defaults=("'2.5'::double precision",),
    ),
    Kind(
        base("numeric", 1700),
        st.one_of(_decimals.map(_plain), _decimals.map(_plain), _special_numerics),
        st.one_of(
            _decimals.map(numeric_binary), _decimals.map(numeric_binary), _wide_binary, _special_binary
        ),
        (-1, numeric_typmod(10, 2), numeric_typmod(38, 18), numeric_typmod(5, -2), numeric_typmod(9, 0)),
        ("1.5", "now()"),
    ),
    Kind(base("money", 790), st.sampled_from((b"$1,234.56", b"-$0.05", b"($3.00)", b"$0.00"))),
    Kind(base("text", 25), _any_text, _any_text, defaults=("'it''s'::text",)),
    Kind(base("varchar", 1043), _any_text, _any_text, (-1, 14)),
    Kind(base("bpchar", 1042), _any_text, _any_text, (9,)),
    Kind(base("name", 19), _any_text, _any_text),
    Kind(base("char", 18), _encoded(st.sampled_from(("a", "", "\\377")))),
    Kind(base("json", 114), _any_text, _any_text, defaults=("'{}'::json",)),
    Kind(
        base("jsonb", 3802), _any_text, st.one_of(_any_text.map(lambda t: b"\x01" + t), st.binary(max_size=3))
    ),
    Kind(
        base("uuid", 2950),
        _encoded(_uuids.map(str)),
        _uuids.map(lambda u: u.bytes),
        defaults=("gen_random_uuid()",),
    ),
    Kind(base("inet", 869), st.sampled_from((b"10.0.0.1", b"::1/64"))),
    Kind(base("int4range", 3904), st.sampled_from((b"[1,6)", b"empty"))),
    Kind(base("bytea", 17), _hex, st.binary(max_size=40)),
    Kind(base("bit", 1560), st.text("01", min_size=1, max_size=1).map(str.encode), None, (1,)),
    Kind(
        base("varbit", 1562), st.text("01", max_size=70).map(str.encode), None, (-1, 5), ("'101'::\"bit\"",)
    ),
    Kind(
        base("date", 1082),
        st.one_of(_dates, _infinite),
        st.one_of(_packed(">i", -2_451_545, 10**6), _packed(">i", -(2**31), 2**31 - 1)),
        defaults=("CURRENT_DATE",),
    ),
    Kind(
        base("time", 1083), _encoded(_clock), _packed(">q", 0, 86_400_000_000), (-1, 0, 3, 6), ("LOCALTIME",)
    ),
    Kind(base("timetz", 1266), st.builds(lambda c, z: (c + z).encode(), _clock, _zone)),
    Kind(
        base("timestamp", 1114),
        st.one_of(_timestamps, _infinite),
        _timestamp_binary,
        (-1, 0, 3, 6),
        ("now()",),
    ),
    Kind(
        base("timestamptz", 1184),
        st.one_of(_timestamptzs, _timestamptzs, _infinite),
        _timestamp_binary,
        (-1, 0, 3, 6),
        ("now()",),
    ),
    Kind(base("interval", 1186), _intervals, defaults=("'1 day'::interval",)),
    Kind(base("point", 600), st.builds(lambda x, y: f"({x},{y})".encode(), _floats, _floats)),
    Kind(MOOD, _moods, _moods, defaults=("'ok'::mood",)),
)

EXTENSIONS: Final = (
    Kind(TypeInfo(16_600, "hstore", namespace="public"), _hstores),
    Kind(
        TypeInfo(16_601, "vector", namespace="public"),
        st.lists(_floats.map(repr), max_size=3).map(lambda x: f"[{','.join(x)}]".encode()),
    ),
    Kind(TypeInfo(16_602, "sparsevec", namespace="public"), st.sampled_from((b"{1:1.5,3:2}/5", b"{}/3"))),
    Kind(
        TypeInfo(16_603, "geometry", namespace="public"),
        st.sampled_from((b"0101000020E6100000000000000000F03F0000000000000040", b"010700000000000000")),
    ),
    Kind(TypeInfo(16_604, "addr", "c", "public"), _any_text),
    Kind(TypeInfo(600_1, "box"), st.just(b"(1,1),(0,0)")),
)

DOMAINS: Final = tuple(
    Kind(
        TypeInfo(
            16_700 + index, f"d_{kind.type.name}", "d", "public", base=kind.type, base_typmod=kind.typmods[-1]
        ),
        kind.text,
        kind.binary,
    )
    for index, kind in enumerate(SCALARS[:9])
)
ARRAYS: Final = tuple(
    Kind(
        TypeInfo(16_800 + index, f"_{kind.type.name}", element=kind.type),
        _array_of(kind.text),
        None,
        kind.typmods,
    )
    for index, kind in enumerate((*SCALARS, *EXTENSIONS))
    if kind.type.name not in ("vector", "sparsevec", "box")
)
KINDS: Final = (*SCALARS, *SCALARS, *SCALARS, *EXTENSIONS, *DOMAINS, *ARRAYS)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, list[Kind]]:
    """A table with a first column that every mode maps, and the kinds of its columns."""
    kinds = [SCALARS[2], *draw(st.lists(st.sampled_from(KINDS), max_size=6))]
    columns = []
    for number, kind in enumerate(kinds):
        default = draw(st.sampled_from((None, *kind.defaults)))
        columns.append(
            Column(
                f"c{number}",
                kind.type,
                draw(st.sampled_from(kind.typmods)),
                draw(st.booleans()),
                default,
                excluded=number > 0 and draw(st.integers(0, 9)) == 0,
            )
        )
    names = [column.name for column in columns]
    key = draw(st.lists(st.sampled_from(names), unique=True, max_size=2))
    return Table("public", draw(st.sampled_from(("t", "Täble"))), tuple(columns), tuple(key)), kinds


def _converters(encoding: st.SearchStrategy[Encoding]) -> st.SearchStrategy[Converter]:
    return st.builds(
        Converter,
        encoding=encoding,
        replace_null_with_default=st.booleans(),
        decimal_format=st.sampled_from(DecimalFormat),
    )


def all_options(encoding: st.SearchStrategy[Encoding]) -> st.SearchStrategy[EnvelopeOptions]:
    """Every mode; small batches."""
    return st.builds(
        EnvelopeOptions,
        topic_prefix=st.just("pre"),
        database=st.just("db"),
        key=_converters(encoding),
        value=_converters(encoding),
        time_precision=st.sampled_from(TimePrecision),
        decimal_handling=st.sampled_from(DecimalHandling),
        binary_handling=st.sampled_from(BinaryHandling),
        interval_handling=st.sampled_from(IntervalHandling),
        hstore_handling=st.sampled_from(HstoreHandling),
        include_unknown_datatypes=st.booleans(),
        unavailable_value_placeholder=st.sampled_from(("__debezium_unavailable_value", "hex:deadbeef")),
        schema_name_adjustment=st.just(NameAdjustment.AVRO),
        field_name_adjustment=st.just(NameAdjustment.AVRO),
        tombstones_on_delete=st.booleans(),
        skipped_operations=st.frozensets(st.sampled_from("cudt")),
        extended_headers=st.booleans(),
        compression=st.sampled_from(("none", "none", "zstd")),
        batch_bytes=st.sampled_from((300, 2000, 262_144)),
        run_id=st.just(str(uuid.UUID(int=7))),
    )
