"""Folding each topic by key gives exactly its table, whatever was done to it, in every encoding."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import shop
from tests.support.live import JSON_SETTINGS, LiveShop

ENCODINGS = {
    "avro": {},
    "json": {**JSON_SETTINGS, "decimal.handling.mode": "precise"},
    "json-with-schemas": {name: value for name, value in JSON_SETTINGS.items() if name.endswith("converter")},
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_topic_folds_into_its_table(database: str, tmp_path: Path, encoding: str) -> None:
    shop.create(database)
    with LiveShop(database, tmp_path / "data", settings=ENCODINGS[encoding], seed=len(encoding)) as live:
        live.workload.run(300)
        live.workload.add_column("customers")
        live.workload.run(100)
        live.workload.add_column("order_lines")
        live.workload.add_column("visits")
        live.workload.run(300)
        folds = live.folded(live.settle())
        assert live.differences(folds) == []
        operations = {table: done.operations for table, done in folds.items()}
        assert all(counted["r"] > 0 for counted in operations.values()), operations
        assert operations["ledger"]["c"] == live.workload.committed - 150
        assert all(sum(counted[op] for counted in operations.values()) > 20 for op in ("c", "u", "d")), (
            operations
        )


def test_transactions_become_visible_whole(database: str, tmp_path: Path) -> None:
    """An order and its lines are one transaction: no reader of both topics sees one without the other."""
    shop.create(database)
    with LiveShop(database, tmp_path / "data") as live:
        live.workload.run(100)
        folds = live.folded(live.settle())
        orders = {row["id"] for row in folds["orders"].result()}
        lines = {row["order_id"] for row in folds["order_lines"].result()}
        assert orders == lines
