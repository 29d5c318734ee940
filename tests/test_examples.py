"""The examples read a served shop as their READMEs say, and so do the lines that the demo prints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gateway.demo import clients
from gateway.supervisor import Endpoints
from tests.support.jars import ROOT, spark_jars
from tests.support.live import LiveShop

EXAMPLES = ROOT / "examples"


def run(command: Sequence[str | Path], **environment: str) -> str:
    """Run a program of the examples from the project's folder; its standard output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def where(live: LiveShop, table: str) -> list[str]:
    """The options that every example takes."""
    service = live.service
    return ["--kafka", service.kafka, "--registry", service.registry_url, "--topic", service.topic(table)]


def rows(live: LiveShop, table: str) -> int:
    """How many rows the table has; nobody writes to it meanwhile."""
    live.settle()
    with psycopg.connect(live.dsn) as connection:
        row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # type: ignore[call-overload]  # ours
    return int(row[0]) if row else 0


def keys_that_remain(output: str) -> set[str]:
    """Folds the lines of the Python and the Java example: offset, operation, key, row."""
    remaining: set[str] = set()
    for line in output.splitlines():
        _, operation, rest = line.split(" ", 2)
        key: Any
        key, _ = json.JSONDecoder().raw_decode(rest)
        if operation in ("d", "tombstone"):
            remaining.discard(json.dumps(key))
        else:
            remaining.add(json.dumps(key))
    return remaining


def needed(program: str) -> str:
    """The path of an installed program; a test that needs an absent one is skipped, but not in CI."""
    found = shutil.which(program)
    if found is None and os.environ.get("CI"):
        pytest.fail(f"{program} is not installed")
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def test_python_confluent(avro_shop: LiveShop) -> None:
    expected = rows(avro_shop, "orders")
    program = EXAMPLES / "python-confluent" / "changes.py"
    output = run([sys.executable, program, *where(avro_shop, "orders"), "--until-end"])
    assert len(keys_that_remain(output)) == expected


def test_java(avro_shop: LiveShop) -> None:
    needed("javac")
    expected = rows(avro_shop, "orders")
    service = avro_shop.service
    script = EXAMPLES / "java" / "run.sh"
    output = run([script, service.kafka, service.registry_url, service.topic("orders")])
    assert len(keys_that_remain(output)) == expected


def test_kcat(avro_shop: LiveShop) -> None:
    needed("kcat")
    service = avro_shop.service
    output = run([EXAMPLES / "kcat" / "read.sh", service.kafka, service.topic("orders"), "3"])
    assert f'topic "{service.topic("orders")}"' in output
    assert sum(line.startswith("offset ") for line in output.splitlines()) == 3


def test_clickhouse(avro_shop: LiveShop) -> None:
    expected = rows(avro_shop, "customers")
    query = (
        "SELECT concat('customers: ', toString(count()), ' of ', toString(uniqExact(id))) FROM replica FINAL"
    )
    program = EXAMPLES / "clickhouse" / "replica.py"
    output = run([sys.executable, program, *where(avro_shop, "customers"), "--query", query])
    assert f"customers: {expected} of {expected}" in output
    statements = run([sys.executable, program, *where(avro_shop, "customers"), "--print-sql"])
    assert statements.count("CREATE ") == 3


def test_the_lines_that_the_demo_prints_run(avro_shop: LiveShop) -> None:
    """As printed, by a shell, from the project's folder; this runs Spark's example too."""
    needed("kcat")
    needed("java")
    assert spark_jars()
    expected = rows(avro_shop, "customers")
    service = avro_shop.service
    endpoints = Endpoints(service.kafka, service.registry, service.admin)
    printed = dict(clients.lines(endpoints, service.topic("customers"), cwd=ROOT))
    outputs = {client: run(["/bin/sh", "-c", line]) for client, line in printed.items()}
    assert set(outputs) == {"kcat", "Spark", "ClickHouse"}
    assert outputs["kcat"].count("offset ") == 5
    assert f"{expected} rows" in outputs["Spark"]
    assert f" {expected} " in outputs["ClickHouse"]
