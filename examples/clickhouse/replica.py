"""Keeps a replica of a table in ClickHouse: Kafka engine, AvroConfluent, ReplacingMergeTree."""

import argparse
import json
import secrets
import tempfile
import time
import urllib.request
from typing import Any

PRIMITIVES = {
    "boolean": "Bool",
    "int": "Int32",
    "long": "Int64",
    "float": "Float32",
    "double": "Float64",
    "string": "String",
    "bytes": "String",
}


def main() -> None:
    """Print the statements, or run them and show the replica."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", default="127.0.0.1:9092")
    parser.add_argument("--registry", default="http://127.0.0.1:8081")
    parser.add_argument("--topic", default="shop.public.orders")
    parser.add_argument(
        "--print-sql", action="store_true", help="print the statements for a ClickHouse server"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to wait for the topic's end")
    parser.add_argument("--query", help="what to show of the table `replica`")
    arguments = parser.parse_args()

    # A group's offsets outlive its tables: a ClickHouse that is made anew each time must not share its group.
    group = f"clickhouse-{arguments.topic}" + ("" if arguments.print_sql else f"-{secrets.token_hex(4)}")
    statements = sql(arguments.kafka, arguments.registry.rstrip("/"), arguments.topic, group)
    if arguments.print_sql:
        print(";\n\n".join(statements) + ";")
        return
    run(statements, arguments.query, arguments.seconds)


def sql(kafka: str, registry: str, topic: str, group: str) -> list[str]:
    """The three statements, with the columns of the topic's newest schemas."""
    envelope = subject(registry, f"{topic}-value")
    key = [field["name"] for field in subject(registry, f"{topic}-key")["fields"]]
    row = next(field for field in envelope["fields"] if field["name"] == "before")["type"][1]
    kinds = {field["name"]: clickhouse_type(field["type"]) for field in row["fields"]}
    columns = {name: kind for name, kind in kinds.items() if kind is not None}

    queue = [f"`after.Value.{name}` {nullable(kind)}" for name, kind in columns.items()]
    queue += [f"`before.Value.{name}` {nullable(columns[name])}" for name in key]
    replica = [f"`{name}` {kind if name in key else nullable(kind)}" for name, kind in columns.items()]
    chosen = [
        f"assumeNotNull(coalesce(`after.Value.{name}`, `before.Value.{name}`)) AS `{name}`"
        if name in key
        else f"`after.Value.{name}` AS `{name}`"
        for name in columns
    ]
    lines = ",\n    ".join
    order = ", ".join(f"`{name}`" for name in key)
    return [
        f"""CREATE TABLE queue (
    {lines([*queue, "op String"])}
) ENGINE = Kafka SETTINGS
    kafka_broker_list = '{kafka}',
    kafka_topic_list = '{topic}',
    kafka_group_name = '{group}',
    kafka_flush_interval_ms = 1000,
    kafka_format = 'AvroConfluent',
    format_avro_schema_registry_url = '{registry}'""",
        f"""CREATE TABLE replica (
    {lines([*replica, "_version UInt64", "_deleted UInt8"])}
) ENGINE = ReplacingMergeTree(_version, _deleted) ORDER BY ({order})""",
        f"""CREATE MATERIALIZED VIEW feed TO replica AS SELECT
    {lines(chosen)},
    toUInt64(_offset) AS _version,
    toUInt8(op = 'd') AS _deleted
FROM queue""",
    ]


def clickhouse_type(avro: Any) -> str | None:
    """The ClickHouse type of an Avro type as AvroConfluent reads it; None for records, which are left out.

    Debezium writes records for `numeric` columns without a scale (decimal.handling.mode=string or double
    makes them plain) and for geometric types.
    """
    if isinstance(avro, list):
        (inner,) = (one for one in avro if one != "null")
        kind = clickhouse_type(inner)
        return nullable(kind) if kind else None
    if isinstance(avro, str):
        return PRIMITIVES[avro]
    if avro.get("logicalType") == "decimal":
        return f"Decimal({avro['precision']}, {avro['scale']})"
    if avro["type"] == "array":
        items = clickhouse_type(avro["items"])
        return f"Array({items})" if items else None
    return None if avro["type"] in ("record", "map") else clickhouse_type(avro["type"])


def nullable(kind: str) -> str:
    """ClickHouse has no nullable arrays; an array that is NULL is an empty one."""
    return kind if kind.startswith(("Nullable", "Array")) else f"Nullable({kind})"


def subject(registry: str, name: str) -> Any:
    """The newest Avro schema of a subject."""
    with urllib.request.urlopen(f"{registry}/subjects/{name}/versions/latest", timeout=10) as response:
        return json.loads(json.load(response)["schema"])


def run(statements: list[str], query: str | None, seconds: float) -> None:
    """In a ClickHouse of this process's own, until no more rows come."""
    from chdb.session import Session

    with tempfile.TemporaryDirectory() as folder:
        session = Session(folder)
        for statement in statements:
            try:
                session.query(statement)
            except RuntimeError as error:
                # chdb says so of every Kafka table, which is there and works all the same.
                if "Shutdown was called" not in str(error):
                    raise
        wait_until_quiet(session, seconds)
        show(session, "SELECT count() AS rows FROM replica FINAL")
        show(session, query or "SELECT * FROM replica FINAL ORDER BY _version DESC LIMIT 10")
        session.query("DROP TABLE feed")
        session.query("DROP TABLE queue")
        session.close()


def wait_until_quiet(session: Any, seconds: float) -> None:
    """Return when rows have come and then none for a few seconds, or when the time is over."""
    seen, quiet, deadline = 0, 0, time.monotonic() + seconds
    while quiet < 4 and time.monotonic() < deadline:
        time.sleep(1)
        count = int(str(session.query("SELECT count() FROM replica", "TSV")))
        quiet = quiet + 1 if count == seen > 0 else 0
        seen = count


def show(session: Any, query: str) -> None:
    """Print a query's rows; text that is not UTF-8 with replacement characters."""
    print(session.query(query, "PrettyCompact").bytes().decode(errors="replace"))


if __name__ == "__main__":
    main()
