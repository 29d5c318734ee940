"""Spark's Kafka source with from_avro: python spark_read.py batch|stream BOOTSTRAP REGISTRY_URL JARS TOPIC…

Prints a JSON list per record: topic, partition, offset, key and value in hex, then key and value as Spark
decoded them. The writer's schema of every id comes from the registry, as `from_avro` needs it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import urllib.request
from functools import cache

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro


def session(jars: str, folder: str) -> SparkSession:
    """Two threads and a small heap: the machine carries a database and a gateway too."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("tidegate-test")
    for name, value in {
        "spark.jars": jars,
        "spark.driver.memory": "768m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def decoded(batch: DataFrame, registry_url: str) -> DataFrame:
    """One line per record, each decoded by the schema whose id it carries."""

    @cache
    def schema(schema_id: int) -> str:
        with urllib.request.urlopen(f"{registry_url}/schemas/ids/{schema_id}", timeout=10) as answer:
            text: str = json.load(answer)["schema"]
        return text

    def schema_id(column: str) -> Column:
        return f.conv(f.hex(f.substring(column, 2, 4)), 16, 10).cast("int")

    def as_json(column: str) -> Column:
        ids = [
            row[0]
            for row in batch.where(f.col(column).isNotNull()).select(schema_id(column)).distinct().collect()
        ]
        body, result = f.expr(f"substring({column}, 6)"), f.when(f.col(column).isNull(), None)
        for known in ids:
            value = from_avro(body, schema(known), {"mode": "FAILFAST"})
            result = result.when(schema_id(column) == known, f.to_json(value))
        return result

    key_json, value_json = as_json("key"), as_json("value")
    return batch.select(
        "topic", "partition", "offset", f.lower(f.hex("key")), f.lower(f.hex("value")), key_json, value_json
    )


def show(batch: DataFrame, registry_url: str) -> None:
    """Print a batch in offset order."""
    batch = batch.persist()
    rows = decoded(batch, registry_url).orderBy("topic", "partition", "offset").collect()
    print("".join(json.dumps(list(row)) + "\n" for row in rows), end="", flush=True)
    batch.unpersist()


def main(mode: str, bootstrap: str, registry_url: str, jars: str, topics: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="tidegate-spark-", ignore_cleanup_errors=True) as folder:
        spark = session(jars, folder)
        options = {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": ",".join(topics),
            "startingOffsets": "earliest",
        }
        if mode == "batch":
            show(spark.read.format("kafka").options(**options).load(), registry_url)
        else:
            changes = spark.readStream.format("kafka").options(**options).load()
            stream = changes.writeStream.foreachBatch(lambda batch, _: show(batch, registry_url))
            stream.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
