"""The table at its place in the stream, from message, catalog and memory (debezium/12 no. 41)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capture.envelope.table import Table
from capture.options import CaptureOptions
from capture.postgres.pgoutput import Relation, RelationColumn
from capture.postgres.relation_catalog import CatalogColumn, CatalogTable
from capture.postgres.table_shape import (
    KnownColumn,
    KnownTable,
    knowledge_of,
    table_of_catalog,
    table_of_stream,
)
from capture.postgres.type_catalog import TypeCatalog

INT, TEXT = 23, 25


def options(**properties: str) -> CaptureOptions:
    written = {name.replace("__", "."): value for name, value in properties.items()}
    return CaptureOptions.parse({"database.dbname": "shop", **written}, name="shop")


def column(
    name: str, type_oid: int = INT, *, nullable: bool = True, default: str | None = None
) -> CatalogColumn:
    return CatalogColumn(name, type_oid, -1, nullable, "", default, None)


NOW = CatalogTable(
    oid=1,
    schema="public",
    name="t",
    partitioned=False,
    parent=None,
    replica_identity="d",
    rows_estimated=0,
    file_node=1,
    columns=(column("b", nullable=False), column("a", nullable=False, default="7"), column("c", TEXT)),
    primary_key=("a", "b"),
)
MESSAGE = Relation(
    1,
    "public",
    "t",
    "d",
    (
        RelationColumn("b", INT, -1, True),
        RelationColumn("a", INT, -1, True),
        RelationColumn("c", TEXT, -1, False),
    ),
)
KNOWN = KnownTable(
    "public.t",
    ("a", "b"),
    True,
    {
        "a": KnownColumn(INT, False, "7"),
        "b": KnownColumn(INT, False, None),
        "c": KnownColumn(TEXT, True, None),
    },
)
NO_KEY = replace(NOW, primary_key=(), columns=())


def streamed(
    message: Relation = MESSAGE,
    now: CatalogTable | None = NOW,
    known: KnownTable | None = KNOWN,
    **properties: str,
) -> Table:
    return table_of_stream(message, now, known, TypeCatalog(), options(**properties))


def full(message: Relation) -> Relation:
    """REPLICA IDENTITY FULL: the message says nothing about the key."""
    columns = tuple(replace(column, identity=True) for column in message.columns)
    return replace(message, replica_identity="f", columns=columns)


def unflagged(message: Relation) -> Relation:
    return replace(message, columns=tuple(replace(column, identity=False) for column in message.columns))


def test_the_key_comes_in_the_order_of_the_index() -> None:
    assert streamed().key == ("a", "b")
    assert table_of_catalog(NOW, TypeCatalog(), options()).key == ("a", "b")


def test_a_message_with_the_default_identity_knows_the_primary_key() -> None:
    assert streamed(now=NO_KEY).key == ("a", "b")  # dropped ahead of the stream: the order is remembered
    assert streamed(now=None).key == ("a", "b")  # the table is gone
    assert streamed(now=NO_KEY, known=None).key == ("b", "a")  # only the message is left
    assert streamed(now=replace(NOW, primary_key=("c",)), known=None).key == ("b", "a")


def test_a_primary_key_that_was_really_dropped_is_gone() -> None:
    assert streamed(unflagged(MESSAGE), NO_KEY).key == ()


def test_other_identities_never_lose_a_key() -> None:
    assert streamed(full(MESSAGE)).key == ("a", "b")
    assert streamed(full(MESSAGE), NO_KEY).key == ("a", "b")
    assert streamed(full(MESSAGE), None).key == ("a", "b")
    assert streamed(full(MESSAGE), NO_KEY, None).key == ()
    renamed = replace(NOW, primary_key=("a", "z"))
    assert streamed(full(MESSAGE), renamed).key == ("a", "b")


def test_a_unique_index_stands_in_and_is_remembered() -> None:
    unique = replace(NO_KEY, unique_index=("c",))
    assert streamed(unflagged(MESSAGE), unique, None).key == ("c",)
    known = replace(KNOWN, key=("c",), primary=False)
    assert streamed(unflagged(MESSAGE), NO_KEY, known).key == ("c",)
    assert streamed(unflagged(MESSAGE), None, known).key == ("c",)


def test_a_rule_goes_before_the_primary_key() -> None:
    assert streamed(message__key__columns="public.t:C,a").key == ("c", "a")
    assert streamed(message__key__columns="public.t:gone").key == ("a", "b")
    assert streamed(message__key__columns="public.other:c").key == ("a", "b")


def test_nullability_and_default_come_from_the_catalog_or_from_memory() -> None:
    def facts(table: Table) -> dict[str, tuple[bool, str | None]]:
        return {column.name: (column.nullable, column.default) for column in table.columns}

    right = {"b": (False, None), "a": (False, "7"), "c": (True, None)}
    assert facts(streamed()) == right
    assert facts(streamed(now=None)) == right
    assert facts(streamed(now=NO_KEY)) == right
    assert facts(streamed(now=None, known=None)) == dict.fromkeys("bac", (True, None))
    # Another type under the same name came later.
    retyped = replace(NOW, columns=(column("a", TEXT, default="'x'"), *NOW.columns[:1], *NOW.columns[2:]))
    assert facts(streamed(now=retyped))["a"] == (False, "7")
    # A migration held its lock, so expressions could not be looked up.
    unknown = replace(
        NOW, defaults_known=False, columns=tuple(replace(column, default=None) for column in NOW.columns)
    )
    assert facts(streamed(now=unknown)) == right


def test_excluded_columns_are_marked() -> None:
    table = streamed(column__exclude__list=r"public\.t\.(a|c)")
    assert [column.name for column in table.columns if column.excluded] == ["a", "c"]
    assert table.key == ("a", "b")


@pytest.mark.parametrize("known", [KNOWN, replace(KNOWN, key=(), primary=False, columns={})])
def test_knowledge_survives_the_memory(known: KnownTable) -> None:
    assert KnownTable.from_json(known.to_json()) == known


def test_knowledge_says_whether_the_key_is_the_primary_key() -> None:
    assert knowledge_of(streamed(), NOW, None) == KNOWN
    assert knowledge_of(streamed(now=NO_KEY), NO_KEY, KNOWN).primary
    unique = replace(NO_KEY, unique_index=("c",))
    assert not knowledge_of(streamed(unflagged(MESSAGE), unique, None), unique, None).primary
