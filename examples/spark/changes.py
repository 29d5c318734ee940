"""Shows the newest row of every key of a topic, by Spark's Kafka source and from_avro."""

import argparse
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pyspark
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

JARS = (
    "spark-sql-kafka-0-10_2.13-4.2.0.jar",
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    "spark-avro_2.13-4.1.1.jar",
    "kafka-clients-3.9.2.jar",
    "commons-pool2-2.13.1.jar",
)
SCHEMA_ID = "CAST(conv(hex(substring(value, 2, 4)), 16, 10) AS INT)"
BODY = "substring(value, 6)"


def main() -> None:
    """Read the topic once, or with --stream until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", default="127.0.0.1:9092")
    parser.add_argument("--registry", default="http://127.0.0.1:8081")
    parser.add_argument("--topic", default="shop.public.orders")
    parser.add_argument("--stream", action="store_true", help="read on until Ctrl-C")
    parser.add_argument(
        "--jars", type=Path, default=Path("build/jars/spark"), help="folder of Spark's packages"
    )
    arguments = parser.parse_args()

    spark = session(fetched(arguments.jars))
    options = {
        "kafka.bootstrap.servers": arguments.kafka,
        "subscribe": arguments.topic,
        "startingOffsets": "earliest",
    }
    registry = arguments.registry.rstrip("/")
    if not arguments.stream:
        topic = spark.read.format("kafka").options(**options).load()
        show(newest_rows(decoded(topic, registry, arguments.topic)))
        return
    stream = spark.readStream.format("kafka").options(**options).load()
    query = stream.writeStream.foreachBatch(
        lambda batch, _: show(newest_rows(decoded(batch, registry, arguments.topic)))
    ).start()
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()


def decoded(topic: DataFrame, registry: str, name: str) -> DataFrame:
    """Key, offset and envelope of every change; each value decoded by the schema it was written with."""
    changes = topic.where("value IS NOT NULL")  # a tombstone repeats the delete before it
    reader = answer(f"{registry}/subjects/{name}-value/versions/latest")["schema"]
    schema_id, body = f.expr(SCHEMA_ID), f.expr(BODY)
    envelope: Column = f.when(f.lit(False), from_avro(body, reader))
    for row in changes.select(schema_id.alias("id")).distinct().collect():
        writer = answer(f"{registry}/schemas/ids/{row.id}")["schema"]
        one = from_avro(body, writer, {"avroSchema": reader, "mode": "FAILFAST"})
        envelope = envelope.when(schema_id == row.id, one)
    return changes.select("key", "offset", envelope.alias("change"))


def newest_rows(changes: DataFrame) -> DataFrame:
    """The rows as they are after the last change of each key; deleted ones are gone."""
    last = Window.partitionBy("key").orderBy(f.desc("offset"))
    newest = changes.withColumn("rank", f.row_number().over(last)).where("rank = 1")
    return newest.where("change.op <> 'd'").select("change.after.*")


def show(rows: DataFrame) -> None:
    """Print how many rows there are, and some of them."""
    rows = rows.cache()
    print(f"{rows.count()} rows", flush=True)
    rows.show(10, truncate=40)
    rows.unpersist()


def session(jars: list[Path]) -> SparkSession:
    """A small local Spark with the Kafka source and Avro."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("changes")
    for name, value in {
        "spark.jars": ",".join(str(jar.resolve()) for jar in jars),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def answer(url: str) -> dict[str, str]:
    """What the Schema Registry says."""
    with urllib.request.urlopen(url, timeout=10) as response:
        return json.load(response)


def fetched(folder: Path) -> list[Path]:
    """Spark's packages, brought on the first run by the Ivy that pyspark ships."""
    jars = [folder / name for name in JARS]
    if not all(jar.exists() for jar in jars):
        (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
        folder.mkdir(parents=True, exist_ok=True)
        command = ["java", "-jar", str(ivy), "-ivy", str(Path(__file__).with_name("ivy.xml"))]
        command += ["-cache", str((folder.parent / "ivy").resolve())]
        command += ["-retrieve", f"{folder.resolve()}/[artifact]-[revision].[ext]"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return jars


if __name__ == "__main__":
    main()
