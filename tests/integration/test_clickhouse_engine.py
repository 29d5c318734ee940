"""ClickHouse's Kafka engine (chdb) into ReplacingMergeTree: FINAL equals the table, deletes included."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import psycopg

from tests.support.clients import runners
from tests.support.fold import differences
from tests.support.live import LiveShop

COLUMNS = {
    "products": (
        {
            "sku": "String",
            "title": "String",
            "price": "Decimal(10,2)",
            "stock": "Int32",
            "weight": "Float32",
            "attributes": "String",
            "updated_at": "Int64",
        },
        ["sku"],
    ),
    "order_lines": (
        {"order_id": "Int64", "line": "Int16", "sku": "String", "quantity": "Int32"},
        ["order_id", "line"],
    ),
    "payments": (
        {
            "id": "String",
            "order_id": "Int64",
            "amount": "Decimal(14,4)",
            "method": "String",
            "paid_at": "String",
        },
        ["id"],
    ),
    "ledger": ({"worker": "Int32", "n": "Int64", "note": "String"}, ["worker", "n"]),
}


def judge(live: LiveShop, folder: Path, registry_url: str | None) -> None:
    """Read on while the shop changes, then compare what FINAL holds with the tables, in SQL."""
    goal, plan = folder / "goal.json", folder / "plan.json"
    tables = {
        live.service.topic(table): {"columns": list(columns.items()), "key": key}
        for table, (columns, key) in COLUMNS.items()
    }
    plan.write_text(
        json.dumps(
            {
                "bootstrap": live.service.kafka,
                "registry_url": registry_url,
                "group": "clickhouse",
                "tables": tables,
                "goal": str(goal),
            }
        )
    )
    with runners.clickhouse(plan) as clickhouse, psycopg.connect(live.dsn) as connection:
        clickhouse.event("ready")
        live.workload.run(100)
        expected = live.settle()
        offsets = {
            topic: [record.offset for record in records if record.value is not None]
            for topic, records in expected.items()
        }
        partial = folder / "goal.part"
        partial.write_text(json.dumps({topic: len(found) for topic, found in offsets.items()}))
        partial.rename(goal)
        assert clickhouse.wait(90) == 0, clickhouse.said()
        printed = [json.loads(line, parse_float=Decimal) for line in clickhouse.lines]
        results = {line["topic"]: line for line in printed if "topic" in line}
        assert results.keys() == tables.keys()
        for topic, result in results.items():
            assert result["offsets"] == offsets[topic], "each change once; tombstones leave no row"
            table = topic.rpartition(".")[2]
            rows = result["rows"]
            if table == "products":  # the picture is bytes, which ClickHouse prints as text
                connection.execute("CREATE TEMP TABLE products AS TABLE products")
                connection.execute("ALTER TABLE pg_temp.products DROP COLUMN picture")
            assert differences(connection, table, rows) == []


def test_avro_confluent(avro_shop: LiveShop, tmp_path: Path) -> None:
    judge(avro_shop, tmp_path, avro_shop.service.registry_url)


def test_json_each_row(json_shop: LiveShop, tmp_path: Path) -> None:
    judge(json_shop, tmp_path, None)
