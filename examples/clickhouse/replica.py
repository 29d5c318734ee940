"""Keeps a replica of a table in ClickHouse: Kafka engine, AvroConfluent, ReplacingMergeTree."""

import argparse
import json
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
    parser.add_argument("--print-sql", action="store_true", help="print the statements for a ClickHouse server")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to wait for the topic's end")
    parser.add_argument("--query", help="what to show of the table `replica`")
    arguments = parser.parse_args()

    statements = sql(arguments.kafka, arguments.registry.rstrip("/"), arguments.topic)
    if arguments.print_sql:
        print(";\n\n".join(statements) + ";")
        return
    run(statements, arguments.query, arguments.seconds)


def sql(kafka: str, registry: str, topic: str) -> list[str]:
    """The three statements, with the columns of the topic's newest schemas."""
    envelope = subject(registry, f"{topic}-value")
    key = [field["name"] for field in subject(registry, f"{topic}-key")["fields"]]
    row = next(field for field in envelope["fields"] if field["name"] == "before")["type"][1]
    columns = {field["name"]: clickhouse_type(field["type"]) for field in row["fields"]}

    queue = [f"`after.Value.{name}` {nullable(kind)}" for name, kind in columns.items()]
    queue += [f"`before.Value.{name}` {nullable(columns[name])}" for name in key]
    replica = [f"`{name}` {kind if name in key else nullable(kind)}" for name, kind in columns.items()]
    chosen = [
        f"assumeNotNull(coalesce(`after.Value.{name}`, `before.Value.{name}`)) AS `{name}`"
        if name in key
        else f"`after.Value.{name}` AS `{name}`"
        for name in columns
    ]
    separator = ",\n    "
    return [
        f"CREATE TABLE queue (\n    {separator.join([*queue, 'op String'])}\n) ENGINE = Kafka SETTINGS\n"
        f"    kafka_broker_list = '{kafka}', kafka_topic_list = '{topic}',\n"
        f"    kafka_group_name = 'clickhouse-{topic}', kafka_format = 'AvroConfluent',\n"
        f"    format_avro_schema_registry_url = '{registry}'",
        f"CREATE TABLE replica (\n    {separator.join([*replica, '_version UInt64', '_deleted UInt8'])}\n"
        f") ENGINE = ReplacingMergeTree(_version, _deleted) ORDER BY ({', '.join(f'`{name}`' for name in key)})",
        f"CREATE MATERIALIZED VIEW feed TO replica AS SELECT\n    {separator.join(chosen)},\n"
        "    toUInt64(_offset) AS _version, toUInt8(op = 'd') AS _deleted\nFROM queue",
    ]


def clickhouse_type(avro: Any) -> str:
    """The ClickHouse type of an Avro type as AvroConfluent reads it."""
    if isinstance(avro, list):
        (inner,) = (one for one in avro if one != "null")
        kind = clickhouse_type(inner)
        return kind if kind.startswith("Array") else nullable(kind)
    if isinstance(avro, str):
        return PRIMITIVES[avro]
    if avro.get("logicalType") == "decimal":
        return f"Decimal({avro['precision']}, {avro['scale']})"
    if avro["type"] == "array":
        return f"Array({clickhouse_type(avro['items'])})"
    return clickhouse_type(avro["type"])


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
        seen, deadline = -1, time.monotonic() + seconds
        while time.monotonic() < deadline:
            newest = int(str(session.query("SELECT max(_version) + count() FROM replica", "TSV")))
            if newest == seen > 0:
                break
            seen = newest
            time.sleep(10 if seen <= 0 else 8)
        query = query or "SELECT * FROM replica FINAL ORDER BY _version DESC LIMIT 10"
        print(session.query("SELECT count() AS rows FROM replica FINAL", "PrettyCompact"))
        print(session.query(query, "PrettyCompact"))
        session.query("DROP TABLE feed")
        session.query("DROP TABLE queue")
        session.close()


if __name__ == "__main__":
    main()
