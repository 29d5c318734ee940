"""How each stock client is started, and how the records that it printed are read back.

A client runs unchanged and in its defaults; only the address, the topics, a group and "from the start" are
given to it. It reads on until the test ends it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.fold import Record
from tests.support.jars import ROOT, class_path, debezium_jars, java, kafka_jars, spark_jars
from tests.support.process import Process, ProcessFailed

HERE = Path(__file__).resolve().parent
_KCAT_PACKAGES = ("kcat", "librdkafka1", "libyajl2")
# Small heaps and one compiler thread: two cores carry a broker, a database and this.
JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_NEEDED_JARS = (
    "avro-1",
    "common-utils",
    "commons-compress",
    "guava",
    "failureaccess",
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "jackson-datatype-jdk8",
    "kafka-avro-serializer",
    "kafka-clients",
    "kafka-schema-registry-client",
    "kafka-schema-serializer",
    "lz4-java",
    "slf4j-api",
    "snappy-java",
    "swagger-annotations-2",
    "zstd-jni",
)
_SEPARATOR = b"\x1f~record~\x1f"
_FIELD = b"\x1f~field~\x1f"


class Client:
    """A running stock client and the records it has printed so far."""

    def __init__(self, process: Process, parse: Callable[[bytes], list[Record]]) -> None:
        self._process = process
        self._parse = parse

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.end(timeout_s=10)

    def records(self) -> list[Record]:
        """What it has read so far, in its own order."""
        return self._parse(bytes(self._process.output))

    def output(self) -> bytes:
        """What it has printed so far."""
        return bytes(self._process.output)

    def wait(self, count: int, *, timeout_s: float = 60.0) -> list[Record]:
        """Wait until it has read so many records, and return them."""
        try:
            self._process.until(
                f"fewer than {count} records",
                lambda lines: len(lines) >= count // 2 and len(self.records()) >= count,
                timeout_s=timeout_s,
            )
        except ProcessFailed as error:
            raise AssertionError(f"{len(self.records())} of {count} records: {error}") from error
        return self.records()


def python_client(script: str, *arguments: str) -> Client:
    """A client script of this folder under this interpreter."""
    command = [sys.executable, "-W", "ignore", str(HERE / script), *arguments]
    return Client(Process(command, errors=_errors(script)), parse_json)


def java_client(bootstrap: str, registry_url: str | None, how: str, topics: Sequence[str]) -> Client:
    """The Java consumer of kafka-clients 4.3; `how` is "subscribe" or "assign"."""
    jars = [jar for jar in debezium_jars() if jar.name.startswith(_NEEDED_JARS)]
    command = [java(), *JAVA_OPTIONS, "-cp", class_path(jars), str(HERE / "ReadTopics.java")]
    command += [bootstrap, registry_url or "-", how, *topics]
    return Client(Process(command, errors=_errors("java")), parse_json)


def console_consumer(bootstrap: str, topic: str) -> Client:
    """Kafka's own kafka-console-consumer; a formatter's options only make its output unambiguous."""
    command = [java(), *JAVA_OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command += ["-cp", class_path(kafka_jars()), "org.apache.kafka.tools.consumer.ConsoleConsumer"]
    command += ["--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"]
    for name, value in (
        ("print.partition", "true"),
        ("print.offset", "true"),
        ("print.key", "true"),
        ("key.separator", _FIELD.decode()),
        ("line.separator", _SEPARATOR.decode() + "\n"),
        ("null.literal", "\x1f~null~\x1f"),
    ):
        command += ["--formatter-property", f"{name}={value}"]

    def parse(output: bytes) -> list[Record]:
        found = []
        for part in output.split(_SEPARATOR + b"\n")[:-1]:
            partition, offset, key, value = part.split(_FIELD)
            numbers = [int(text.rpartition(b":")[2]) for text in (partition, offset)]
            key_or_none, value_or_none = (
                None if text == b"\x1f~null~\x1f" else text for text in (key, value)
            )
            found.append(Record(topic, numbers[0], numbers[1], key_or_none, value_or_none))
        return found

    return Client(Process(command, errors=_errors("console")), parse)


def spark(mode: str, bootstrap: str, registry_url: str, topics: Sequence[str]) -> Client:
    """Spark's Kafka source, "batch" or "stream"; `decoded` tells what from_avro made of the bytes."""
    jars = ",".join(str(jar) for jar in spark_jars() if not jar.name.startswith("delta-"))
    return python_client("spark_read.py", mode, bootstrap, registry_url, jars, *topics)


def clickhouse(plan: Path) -> Process:
    """chdb's Kafka engine, by the plan that clickhouse.py explains."""
    command = [sys.executable, "-W", "ignore", str(HERE / "clickhouse.py"), str(plan)]
    return Process(command, errors=_errors("clickhouse"))


def kcat(bootstrap: str, topics: Sequence[str], *, group: str | None) -> Client:
    """kcat, as a group's member with several topics, or as a simple consumer of one topic."""
    program, libraries = _kcat()
    command = [program, "-b", bootstrap, "-u", "-f", "%t %p %o %K %S %k%s\n"]
    command += ["-G", group, *topics] if group else ["-C", "-t", topics[0]]
    if group:
        command += ["-X", "auto.offset.reset=earliest"]
    environment = {"LD_LIBRARY_PATH": libraries} if libraries else {}
    return Client(Process(command, errors=_errors("kcat"), environment=environment), parse_kcat)


def parse_json(output: bytes) -> list[Record]:
    """Lines of [topic, partition, offset, key in hex or null, value in hex or null]."""
    found = []
    for line in output.split(b"\n")[:-1]:
        if not line.startswith(b"["):
            continue
        topic, partition, offset, *parts = json.loads(line)
        key, value = (None if part is None else bytes.fromhex(part) for part in parts[:2])
        found.append(Record(topic, partition, offset, key, value))
    return found


def decoded(output: bytes) -> dict[bytes, Any]:
    """What Spark decoded from each key and value."""
    found = {}
    for line in output.split(b"\n")[:-1]:
        if line.startswith(b"["):
            parts = json.loads(line)[3:]
            for data, text in zip(parts[:2], parts[2:], strict=True):
                if data is not None:
                    found[bytes.fromhex(data)] = json.loads(text, parse_float=Decimal)
    return found


def parse_kcat(output: bytes) -> list[Record]:
    """Topic, partition, offset and both lengths (-1: null), then key and value as they are."""
    found: list[Record] = []
    position = 0
    while True:
        head = output[position : position + 400].split(b" ", 5)
        if len(head) < 6:
            return found
        topic, numbers = head[0].decode(), [int(part) for part in head[1:5]]
        begin = position + sum(len(part) + 1 for part in head[:5])
        key_end = begin + max(numbers[2], 0)
        end = key_end + max(numbers[3], 0)
        if len(output) <= end:
            return found
        key = None if numbers[2] < 0 else output[begin:key_end]
        value = None if numbers[3] < 0 else output[key_end:end]
        found.append(Record(topic, numbers[0], numbers[1], key, value))
        position = end + 1


def _kcat() -> tuple[str, str]:
    """The program and where its libraries are: installed, or unpacked from Debian's packages into build/."""
    if installed := shutil.which("kcat"):
        return installed, ""
    root = ROOT / "build" / "kcat"
    program = root / "usr" / "bin" / "kcat"
    if not program.exists():
        problem = _unpack_kcat(root)
        if problem and os.environ.get("CI"):
            pytest.fail(f"kcat is neither installed nor to be had: {problem}")
        if problem:
            pytest.skip(f"kcat is neither installed nor to be had: {problem}")
    libraries = ":".join(sorted({str(path.parent) for path in root.rglob("lib*.so.*")}))
    return str(program), libraries


def _unpack_kcat(root: Path) -> str | None:
    """Download the packages as any user and unpack them; None when that went well, else what did not."""
    if shutil.which("apt-get") is None:
        return "no apt-get here"
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent) as folder:
        download = ["apt-get", "download", *_KCAT_PACKAGES]
        done = subprocess.run(download, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0 and os.geteuid() == 0:  # a bare machine has no package lists yet
            subprocess.run(["apt-get", "update"], capture_output=True, check=False)
            done = subprocess.run(download, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return done.stderr.strip()[-300:]
        unpacked = Path(folder) / "root"
        for package in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(unpacked)], check=True)
        shutil.rmtree(root, ignore_errors=True)
        unpacked.rename(root)
    return None


def _errors(name: str) -> Path:
    folder = ROOT / "build" / "client-logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}-{os.getpid()}.stderr"
