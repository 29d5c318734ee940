"""Several databases in one service: a process each, one that fails disturbs no other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support import consume, shop
from tests.support.fold import AvroDecoder, differences, fold
from tests.support.postgres import PostgresServer
from tests.support.process import Process, tidegate
from tests.support.service import ROOT, free_addresses


@pytest.fixture
def databases(postgres: PostgresServer) -> Iterator[dict[str, str]]:
    """Two shops by the names of their captures."""
    found = {name: postgres.create_database() for name in ("north", "south")}
    for dsn in found.values():
        shop.create(dsn)
    yield found
    for dsn in found.values():
        postgres.drop_database(dsn)


def test_two_databases_and_one_that_goes_away(databases: dict[str, str], tmp_path: Path) -> None:
    lines = []
    for name, dsn in databases.items():
        lines += [f"[capture.{name}]", f"postgres = {json.dumps(dsn)}"]
        lines += [f'topic.prefix = "{name}"', f'slot.name = "several_{name}"']
    configuration = tmp_path / "tidegate.toml"
    configuration.write_text("\n".join(lines) + "\n")
    kafka, registry, admin = free_addresses(3)
    command = tidegate("serve", "--json", "--config", str(configuration), "--data", str(tmp_path / "data"))
    command += ["--kafka", kafka, "--registry", registry, "--admin", admin]
    workloads = {
        name: shop.Workload(dsn, seed=number) for number, (name, dsn) in enumerate(databases.items())
    }
    with Process(command, errors=tmp_path / "stderr", environment={"PYTHONPATH": str(ROOT)}) as service:
        ready = service.event("ready")
        assert set(ready["captures"]) == set(databases)
        topics = [f"{name}.public.{table}" for name in databases for table in shop.TABLES]
        service.until(
            "topics",
            lambda _: (
                set(topics) <= set(consume.topics(kafka, "north")) | set(consume.topics(kafka, "south"))
            ),
        )
        with consume.Reader(kafka, topics) as reader:
            for workload in workloads.values():
                workload.run(40)
            for name, workload in workloads.items():
                reader.wait_for(f"{name}.public.ledger", workload.mark().encode())
            with psycopg.connect(databases["south"], autocommit=True) as connection:
                connection.execute("DROP PUBLICATION dbz_publication")
                workloads["south"].run(1)
            workloads["north"].run(20)
            reader.wait_for("north.public.ledger", workloads["north"].mark().encode())
        decode = AvroDecoder(f"http://{registry}")
        with psycopg.connect(databases["north"]) as connection:
            for table in shop.TABLES:
                folded = fold(reader.records[f"north.public.{table}"], decode)
                assert differences(connection, table, folded.result()) == []
        for workload in workloads.values():
            workload.close()
        assert service.end() == 0
