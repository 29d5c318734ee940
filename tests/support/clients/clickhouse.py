"""ClickHouse's Kafka engine (chdb) into ReplacingMergeTree: python clickhouse.py PLAN

PLAN is a JSON file: bootstrap, group, registry_url (null: the topics are JSON), tables (topic -> columns
with their ClickHouse types, key columns) and `goal`, a file that the test writes when it knows how many
changes each topic holds. Then every table is printed: {"topic", "offsets": […], "rows": […]}, rows as FINAL
has them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from chdb import session


def statements(plan: dict[str, Any], number: int, topic: str) -> list[str]:
    """The engine table, the target and the views between them, for one topic."""
    columns, key = plan["tables"][topic]["columns"], plan["tables"][topic]["key"]
    settings = {
        "kafka_broker_list": plan["bootstrap"],
        "kafka_topic_list": topic,
        "kafka_group_name": f"{plan['group']}-{number}",
        "kafka_format": "AvroConfluent" if plan["registry_url"] else "JSONEachRow",
    }
    if plan["registry_url"]:
        settings["format_avro_schema_registry_url"] = plan["registry_url"]
        fields = [
            f"`{side}.Value.{name}` Nullable({kind})"
            for side in ("before", "after")
            for name, kind in columns
        ]
        fields += ["`source.lsn` UInt64", "op String"]
        pick, lsn = "if(op = 'd', `before.Value.{0}`, `after.Value.{0}`)", "`source.lsn`"
    else:
        leaves = ", ".join(f"`{name}` Nullable({kind})" for name, kind in columns)
        fields = [
            f"`before` Tuple({leaves})",
            f"`after` Tuple({leaves})",
            "source Tuple(lsn UInt64)",
            "op String",
        ]
        pick, lsn = "if(op = 'd', before.`{0}`, after.`{0}`)", "source.lsn"
    target = [f"`{name}` {kind if name in key else f'Nullable({kind})'}" for name, kind in columns]
    picked = ", ".join(
        f"{f'assumeNotNull({pick.format(name)})' if name in key else pick.format(name)} AS `{name}`"
        for name, _ in columns
    )
    assigned = ", ".join(f"{name} = '{value}'" for name, value in settings.items())
    order = ", ".join(f"`{name}`" for name in key)
    merging = f"ENGINE = ReplacingMergeTree(_v, _del) ORDER BY ({order})"
    selected = f"SELECT {picked}, {lsn} AS _v, op = 'd' AS _del FROM queue_{number}"
    offsets = f"SELECT _offset AS o FROM queue_{number}"
    return [
        f"CREATE TABLE target_{number} ({', '.join(target)}, _v UInt64, _del UInt8) {merging}",
        f"CREATE TABLE offsets_{number} (o UInt64) ENGINE = MergeTree ORDER BY o",
        f"CREATE TABLE queue_{number} ({', '.join(fields)}) ENGINE = Kafka SETTINGS {assigned}",
        f"CREATE MATERIALIZED VIEW view_{number} TO target_{number} AS {selected}",
        f"CREATE MATERIALIZED VIEW seen_{number} TO offsets_{number} AS {offsets}",
    ]


def main(plan: dict[str, Any]) -> None:
    goal = Path(plan["goal"])
    with tempfile.TemporaryDirectory(prefix="tidegate-chdb-", ignore_cleanup_errors=True) as folder:
        clickhouse = session.Session(folder)
        for number, topic in enumerate(plan["tables"]):
            for statement in statements(plan, number, topic):
                try:
                    clickhouse.query(statement)
                except RuntimeError as error:
                    # chdb reports "Shutdown was called" for a Kafka table that it has nevertheless made.
                    if "Shutdown was called" not in str(error):
                        raise
        print('{"event": "ready"}', flush=True)
        while not goal.exists():
            time.sleep(0.05)
        goals = json.loads(goal.read_text())
        for number, topic in enumerate(plan["tables"]):
            while int(str(clickhouse.query(f"SELECT count() FROM offsets_{number}", "CSV"))) < goals[topic]:
                time.sleep(0.1)
            offsets = str(clickhouse.query(f"SELECT o FROM offsets_{number} ORDER BY o", "CSV")).split()
            rows = str(
                clickhouse.query(f"SELECT * EXCEPT (_v, _del) FROM target_{number} FINAL", "JSONEachRow")
            )
            lists = f'"offsets": [{", ".join(offsets)}], "rows": [{", ".join(rows.splitlines())}]'
            print(f'{{"topic": "{topic}", {lists}}}', flush=True)
        clickhouse.close()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
