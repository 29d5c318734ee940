"""The fold is the judge of what was lost or doubled, so it is judged first."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.support.fold import Fold, Record, decode_json, differences, fold

TOPIC = "shop.public.t"


def record(offset: int, key: Any, value: Any) -> Record:
    texts = [None if part is None else json.dumps(part).encode() for part in (key, value)]
    return Record(TOPIC, 0, offset, *texts)


def change(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after}


def test_a_life_is_folded() -> None:
    key, row = {"id": 1}, {"id": 1, "name": "a", "body": "long"}
    folded = fold(
        [
            record(0, key, change("r", after=row)),
            record(1, key, change("u", after={**row, "name": "b", "body": "__debezium_unavailable_value"})),
            record(2, {"id": 2}, change("c", after={"id": 2, "name": "x", "body": None})),
            record(3, {"id": 2}, change("d", before={"id": 2, "name": None, "body": None})),
            record(4, {"id": 2}, None),
        ],
        decode_json,
    )
    assert folded.result() == [{"id": 1, "name": "b", "body": "long"}]
    assert folded.operations["tombstone"] == 1


@pytest.mark.parametrize(
    ("records", "complaint"),
    [
        ([record(1, {"id": 1}, change("c", after={"id": 1}))], "expected offset 0"),
        ([record(n, {"id": 1}, change("c", after={"id": 1})) for n in (0, 1)], "doubled"),
        ([record(0, {"id": 1}, change("u", after={"id": 1}))], "lost"),
        ([record(0, {"id": 1}, change("d", before={"id": 1}))], "lost"),
        ([record(0, {"id": 1}, None)], "without a delete"),
        (
            [
                record(0, {"id": 1}, change("c", after={"id": 1})),
                record(1, {"id": 1}, change("d", before={"id": 1})),
                record(2, {"id": 1}, change("c", after={"id": 1})),
            ],
            "no tombstone",
        ),
        (
            [
                record(0, {"id": 1}, change("c", after={"id": 1, "n": 1})),
                record(1, {"id": 1}, change("u", before={"id": 1, "n": 2}, after={"id": 1, "n": 3})),
            ],
            "before.n",
        ),
        ([record(0, None, change("d", before={"id": 1}))], "lost"),
    ],
)
def test_what_is_lost_or_doubled_is_found(records: list[Record], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        fold(records, decode_json)


def test_rows_without_a_key_are_counted() -> None:
    row = {"page": "a", "n": None}
    folded = Fold(decode_json)
    for offset, value in enumerate(
        [change("c", after=row), change("c", after=row), change("d", before=row), None]
    ):
        folded.add(record(offset, None, value))
    assert folded.result() == [{"page": "a"}]


def test_the_server_compares(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int, day date, at timestamp, price numeric(8,2), raw bytea)")
        connection.execute("INSERT INTO t (id) VALUES (2)")
        connection.execute(
            "INSERT INTO t VALUES (1, '1969-12-31', '2026-01-02 03:04:05.000006', -1.50, '\\x00ff')"
        )
        row = {"id": 1, "day": -1, "at": 1767323045000006, "price": "/2o=", "raw": "AP8="}
        assert differences(connection, "t", [row, {"id": 2}]) == []
        assert differences(connection, "t", [row]) == [
            "t: 1 rows only in the table, e.g. (2, None, None, None, None)"
        ]
        assert len(differences(connection, "t", [row, {"id": 3}])) == 2
        assert "columns that the table has not" in differences(connection, "t", [{"other": 1}])[0]
