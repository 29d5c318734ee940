"""The demo from start to end: database, load, service, feed; or the proof in place of the feed."""

from __future__ import annotations

import asyncio
import shlex
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final

import click
import psycopg

from capture.log import Log
from gateway.cli.output import number, print_json, print_table
from gateway.cli.reporters import HumanReporter, QuietReporter
from gateway.cli.run_service import run_service
from gateway.config import Config
from gateway.demo import clients, shop
from gateway.demo.feed import Reader, show_changes, wait_for_topics
from gateway.demo.postgres import EmbeddedPostgres
from gateway.demo.proof import Folded, TableProof, prove
from gateway.supervisor import Endpoints, Supervisor, SupervisorError

_PROOF_CHANGES: Final = 300
_PROOF_RATE: Final = 100.0
_SNAPSHOT_S: Final = 120.0
_POLL_S: Final = 0.1


class Demo:
    """One run of the demo; `home` is the folder of the database, still to be made."""

    def __init__(self, config: Config, home: Path, *, rate: float) -> None:
        (capture,) = config.captures
        self.config = config
        self.capture = capture.name
        self.topics = [f"{capture.name}.public.{table}" for table in shop.TABLES]
        self._home = home
        self._rate = rate
        self._stop = threading.Event()
        self._proofs: list[TableProof] = []
        self._url = ""

    def run(self, *, once: bool, as_json: bool) -> bool:
        """Run until a signal, or with `once` until all is proved; False where the proof failed."""
        if not as_json:
            click.echo("Starting PostgreSQL 18 and filling a small shop ...")
        self._home.mkdir()
        with EmbeddedPostgres(self._home) as postgres:
            self._url = postgres.create_database(shop.DATABASE)
            shop.create(self._url)
            log = Log.open(self.config.log.data, create=True)
            if once:
                return self._run_once(log, as_json=as_json)
            return self._run_on(log, postgres)

    def _run_on(self, log: Log, postgres: EmbeddedPostgres) -> bool:
        reporter = HumanReporter(lambda endpoints: self._described(endpoints, postgres))

        def say(line: str) -> None:
            reporter.say(line, cut=True)

        async def feed(supervisor: Supervisor) -> None:
            endpoints = await supervisor.ready()
            kafka, registry = endpoints.kafka, endpoints.registry
            await asyncio.to_thread(show_changes, kafka, registry, self.topics, say, self._stop)

        try:
            with shop.Load(self._url, per_second=self._rate), reporter:
                asyncio.run(run_service(self.config, log, reporter, beside=feed, stopping=self._stop.set))
        finally:
            self._stop.set()
        click.echo("Stopped.")
        return True

    def _described(self, endpoints: Endpoints, postgres: EmbeddedPostgres) -> str:
        lines = [
            "",
            f"The shop is captured to topics {self.capture}.public.*: Debezium's envelope, in Avro.",
            "",
            f"  Kafka      {endpoints.kafka}",
            f"  registry   http://{endpoints.registry}",
            f"  admin      http://{endpoints.admin}/metrics",
            "",
            "Read it with a client of yours, from another terminal:",
            "",
        ]
        for client, line in clients.lines(endpoints, f"{self.capture}.public.orders"):
            lines += [f"  # {client}", f"  {line}"]
        psql = shlex.join([clients.short(postgres.psql), self._url])
        lines += [
            "  # change something yourself",
            f"  {psql}",
            "",
            "Ctrl-C ends all of it. The live feed:",
            "",
        ]
        return "\n".join(lines)

    def _run_once(self, log: Log, *, as_json: bool) -> bool:
        reporter = QuietReporter()

        async def proof(supervisor: Supervisor) -> None:
            endpoints = await supervisor.ready()
            await self._snapshot_done(supervisor, log)
            await asyncio.to_thread(self._prove, endpoints, as_json)

        try:
            asyncio.run(run_service(self.config, log, reporter, beside=proof, stopping=self._stop.set))
        finally:
            self._stop.set()
        proved = bool(self._proofs) and not any(proof.differences for proof in self._proofs)
        if not proved:
            reporter.show_logs()
        if as_json:
            print_json({"proved": proved, "tables": {proof.table: _as_json(proof) for proof in self._proofs}})
        elif self._proofs:
            _show(self._proofs)
        return proved

    async def _snapshot_done(self, supervisor: Supervisor, log: Log) -> None:
        """Wait until the capture streams; raises SupervisorError where it cannot."""
        deadline = time.monotonic() + _SNAPSHOT_S
        phase = ""
        while phase != "streaming":
            if self.capture in supervisor.failures:
                raise SupervisorError(f"the capture ended: {supervisor.failures[self.capture]}")
            if time.monotonic() > deadline:
                raise SupervisorError(
                    f"no snapshot after {_SNAPSHOT_S:.0f} s; the capture is in phase {phase!r}"
                )
            await asyncio.sleep(_POLL_S)
            _, status = log.catalog.statuses().get(self.capture, (0, {}))
            phase = str(status.get("phase", ""))

    def _prove(self, endpoints: Endpoints, as_json: bool) -> None:
        """Prove the snapshot, then the snapshot and what a load changed after it; for a thread of its own."""
        wait_for_topics(endpoints.kafka, self.topics, self._stop)
        reader = Reader(endpoints.kafka, endpoints.registry, self.topics)
        folded = Folded()
        expected: Counter[tuple[str, str]] = Counter()
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                for table in shop.TABLES:
                    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
                    expected[table, "r"] = row[0] if row else 0
                self._proofs = prove(reader, folded, connection, shop.TABLES, expected)
                if any(proof.differences for proof in self._proofs):
                    return
                if not as_json:
                    rows = number(sum(proof.rows for proof in self._proofs))
                    click.echo(f"The snapshot of {len(shop.TABLES)} tables, {rows} rows, equals SQL.")
                expected.update(self._load())
                self._proofs = prove(reader, folded, connection, shop.TABLES, expected)
        finally:
            reader.close()

    def _load(self) -> Counter[tuple[str, str]]:
        """Write to the shop until it has changed enough rows; returns what was committed."""
        with shop.Load(self._url, per_second=max(self._rate, _PROOF_RATE)) as load:
            while sum(load.changes.values()) < _PROOF_CHANGES and load.failure is None:
                if self._stop.wait(_POLL_S):
                    break
        if load.failure is not None:
            raise load.failure
        return load.changes


def _as_json(proof: TableProof) -> dict[str, object]:
    return {
        "rows": proof.rows,
        "snapshot": proof.snapshot,
        "inserts": proof.streamed["c"],
        "updates": proof.streamed["u"],
        "deletes": proof.streamed["d"],
        "differences": list(proof.differences),
    }


def _show(proofs: list[TableProof]) -> None:
    """The proof as a table, then the differences if there are any."""
    rows = [
        (
            proof.table,
            proof.snapshot,
            *(proof.streamed[op] for op in "cud"),
            proof.rows,
            "equals SQL" if not proof.differences else "DIFFERS",
        )
        for proof in proofs
    ]
    print_table(("table", "snapshot", "inserts", "updates", "deletes", "rows now", ""), rows, empty="")
    for proof in proofs:
        for difference in proof.differences:
            click.echo(f"{proof.table}: {difference}", err=True)
    if not any(proof.differences for proof in proofs):
        streamed = sum(sum(proof.streamed.values()) for proof in proofs)
        click.echo(f"Proved: every table's snapshot and {number(streamed)} streamed changes, against SQL.")
