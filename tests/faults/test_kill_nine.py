"""Kill -9 of capture, gateway and both at random moments under load, and restarts of Postgres: nothing is
lost, nothing doubled, no offset changes its record, no high watermark goes back, and consumers that read
throughout see each change once.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaException

from tests.support import consume, shop
from tests.support.fold import AvroDecoder, Fold, Record, differences, fold
from tests.support.postgres import PostgresServer
from tests.support.service import Parts, Service

ROUNDS = 20
FAST_RESTARTS = {
    "TIDEGATE_SUPERVISOR__RESTART_BACKOFF_MS": "50",
    "TIDEGATE_SUPERVISOR__RESTART_BACKOFF_MAX_MS": "200",
}


class Watermarks:
    """The highest watermark ever seen of each topic."""

    def __init__(self, bootstrap: str, names: Sequence[str]) -> None:
        self._bootstrap = bootstrap
        self._seen = dict.fromkeys(names, 0)

    def look(self) -> None:
        """AssertionError when a watermark went back."""
        for name, end in consume.ends(self._bootstrap, list(self._seen)).items():
            assert end >= self._seen[name], f"{name}: the high watermark went back to {end}"
            self._seen[name] = end


def check_ledger(folded: Fold, workers: Sequence[shop.Workload]) -> None:
    """Each worker's committed transactions are there, without a gap."""
    for worker in workers:
        numbers = sorted(row["n"] for row in folded.result() if row["worker"] == worker.worker)
        assert numbers == list(range(1, len(numbers) + 1)), f"worker {worker.worker}"


def check_order(records: Sequence[Record], name: str) -> None:
    assert [record.offset for record in records] == list(range(len(records))), name


def check_all(service: Service, dsn: str, running: Mapping[str, Sequence[Record]]) -> dict[str, Fold]:
    """What was read throughout is what is there now, and folds into the tables."""
    final = consume.read(service.kafka, list(running))
    for name, records in running.items():
        check_order(records, name)
        assert records == final[name], f"{name}: a consumer that ran throughout saw something else"
    decode = AvroDecoder(service.registry_url)
    folds = {name.rpartition(".")[2]: fold(records, decode) for name, records in final.items()}
    with psycopg.connect(dsn) as connection:
        found = [
            line for table, done in folds.items() for line in differences(connection, table, done.result())
        ]
    assert found == []
    return folds


def final_mark(service: Service, reader: consume.Reader, dsn: str) -> None:
    """Wait until the reader has everything that was committed before now."""
    with shop.Workload(dsn, seed=0) as last:
        last.resume()
        mark = last.mark()
    reader.wait_for(service.topic("ledger"), mark.encode())
    ends = consume.ends(service.kafka, list(reader.records))
    reader.wait(lambda got: all(len(got[name]) >= end for name, end in ends.items()))


def test_twenty_kills_under_load(database: str, tmp_path: Path) -> None:
    kill_under_load(database, tmp_path, rounds=ROUNDS, seed=20)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(5))
def test_hundreds_of_kills(database: str, tmp_path: Path, seed: int) -> None:
    kill_under_load(database, tmp_path, rounds=100, seed=seed)


def kill_under_load(database: str, tmp_path: Path, *, rounds: int, seed: int) -> None:
    """So many kills of capture, gateway or both while the shop changes; then all that must hold."""
    chance = random.Random(seed)
    shop.create(database)
    with shop.Workload(database, seed=seed) as before:
        before.run(100)
    with Service(database, tmp_path / "data", environment=FAST_RESTARTS) as service:
        names = sorted(service.topic(table) for table in shop.TABLES)
        watermarks = Watermarks(service.kafka, names)
        with (
            consume.Reader(service.kafka, names) as reader,
            shop.Load(database, seed=seed, rest_s=0.005) as load,
        ):
            killed = 0
            for round_number in range(rounds):
                time.sleep(chance.uniform(0.2, 0.9))
                for role in chance.choice((["capture"], ["gateway"], ["capture", "gateway"])):
                    killed += service.kill(role)
                if round_number % 4 == 3:
                    _until_it_answers(watermarks)
            time.sleep(0.5)
            load.stop()
            assert killed >= rounds, "too few processes were there to be killed"
            assert load.committed > rounds * 20
            final_mark(service, reader, database)
            watermarks.look()
        folds = check_all(service, database, reader.records)
        check_ledger(folds["ledger"], [before, *load.workers])
        assert all(done.operations["r"] > 0 for done in folds.values())


def test_a_huge_transaction_is_seen_whole(database: str, tmp_path: Path) -> None:
    """Larger than what is held in memory, its capture killed on the way: it becomes visible at once."""
    shop.create(database)
    with Service(database, tmp_path / "data", environment=FAST_RESTARTS) as service:
        names = [service.topic("order_lines"), service.topic("ledger")]
        _until_topics(service, names)
        with psycopg.connect(database) as connection:
            connection.execute(
                "INSERT INTO order_lines SELECT g, 1, repeat('s', 20), 1 FROM generate_series(1, 250000) g"
            )
            connection.execute("INSERT INTO ledger VALUES (7, 1, 'huge')")
        sizes = {0}
        chance = random.Random(3)
        kills = 0
        deadline = time.monotonic() + 60
        while len(sizes) == 1:
            assert time.monotonic() < deadline, "the transaction did not come through"
            if kills < 4:
                time.sleep(chance.uniform(0.3, 0.7))
                kills += service.kill("capture")
            ends = consume.ends(service.kafka, names)
            assert ends[names[1]] or not ends[names[0]], "one topic of the transaction without the other"
            sizes.add(ends[names[0]])
        assert sizes == {0, 250_000}
        records = consume.read(service.kafka, names)
        assert len({record.key for record in records[names[0]]}) == 250_000
        assert len(records[names[1]]) == 1


def test_a_group_goes_on_after_its_gateway_was_killed(database: str, tmp_path: Path) -> None:
    """What a member committed it never gets again; what it had not, it does; nothing is left out."""
    shop.create(database)
    with (
        Service(database, tmp_path / "data", environment=FAST_RESTARTS) as service,
        shop.Workload(database, seed=8) as workload,
    ):
        topic = service.topic("ledger")
        _until_topics(service, [topic])
        member = Consumer(consume.configuration(service.kafka, group_id="steady"))
        member.subscribe([topic])
        seen: list[int] = []
        committed = 0
        try:
            for round_number in range(6):
                workload.run(20)
                if round_number < 4:
                    service.kill("gateway")
                mark = workload.mark().encode()
                deadline = time.monotonic() + 60
                while True:
                    assert time.monotonic() < deadline, f"round {round_number}: read {len(seen)}"
                    messages = [m for m in member.consume(num_messages=50, timeout=0.2) if not m.error()]
                    offsets = [m.offset() or 0 for m in messages]
                    assert all(offset >= committed for offset in offsets), "got again what was committed"
                    seen += offsets
                    with contextlib.suppress(KafkaException):
                        if offsets:
                            member.commit(asynchronous=False)
                            committed = offsets[-1] + 1
                    if any(mark in (m.value() or b"") for m in messages):
                        break
        finally:
            member.close()
        assert sorted(set(seen)) == list(range(max(seen) + 1))


def test_the_whole_service_killed(database: str, tmp_path: Path) -> None:
    """The supervisor too, and its workers with it; what is started again goes on."""
    shop.create(database)
    with shop.Workload(database, seed=3) as workload:
        workload.run(50)
        service = Service(database, tmp_path / "data")
        names = sorted(service.topic(table) for table in shop.TABLES)
        service.start()
        try:
            with consume.Reader(service.kafka, names) as reader:
                for _ in range(3):
                    workload.run(40)
                    assert service.process is not None
                    workers = service.process.children()
                    service.process.kill()
                    for worker in workers:
                        worker.wait(5)
                    workload.run(20)
                    service.start()
                final_mark(service, reader, database)
            folds = check_all(service, database, reader.records)
            check_ledger(folds["ledger"], [workload])
        finally:
            service.stop()


def test_kills_during_the_snapshot(database: str, tmp_path: Path) -> None:
    """A snapshot that is cut short anywhere leaves no row doubled and none out."""
    chance = random.Random(7)
    shop.create(database)
    with psycopg.connect(database) as connection:
        rows = "SELECT g::text, repeat('n', 40) FROM generate_series(1, 60000) g"
        connection.execute(f"INSERT INTO customers (email, name) {rows}")
        connection.execute("INSERT INTO order_lines SELECT g, 1, 'sku', 1 FROM generate_series(1, 60000) g")
    with Service(database, tmp_path / "data", environment=FAST_RESTARTS) as service:
        names = sorted(service.topic(table) for table in shop.TABLES)
        with shop.Load(database, seed=4, workers=1, rest_s=0.02) as load:
            interrupted = 0
            while interrupted < 6 and _copies(database):
                time.sleep(chance.uniform(0, 0.05))
                service.kill("capture")
                interrupted += 1
            assert interrupted >= 3, "the kills came too late for the snapshot"
            load.stop()
        _until_topics(service, names)
        with consume.Reader(service.kafka, names) as reader:
            final_mark(service, reader, database)
        folds = check_all(service, database, reader.records)
        check_ledger(folds["ledger"], load.workers)


@pytest.mark.parametrize("immediate", [False, True], ids=["fast", "as-in-a-crash"])
def test_postgres_restarts(tmp_path: Path, immediate: bool) -> None:
    with PostgresServer() as server:
        database = server.create_database()
        shop.create(database)
        with Service(database, tmp_path / "data", environment=FAST_RESTARTS) as service:
            names = sorted(service.topic(table) for table in shop.TABLES)
            _until_topics(service, names)
            with (
                consume.Reader(service.kafka, names) as reader,
                shop.Load(database, seed=5, rest_s=0.005) as load,
            ):
                for _ in range(2):
                    time.sleep(0.7)
                    server.restart(immediate=immediate)
                time.sleep(0.7)
                load.stop()
                final_mark(service, reader, database)
            folds = check_all(service, database, reader.records)
            check_ledger(folds["ledger"], load.workers)


def test_gateway_and_capture_apart(database: str, tmp_path: Path) -> None:
    """Run by `tidegate gateway` and `tidegate capture`, either goes on while the other is away."""
    shop.create(database)
    with Parts(database, tmp_path / "data") as parts, shop.Workload(database, seed=6) as workload:
        capture = parts.start_capture()
        names = sorted(parts.topic(table) for table in shop.TABLES)
        gateway = parts.start_gateway()
        _until_topics(parts, names)
        with consume.Reader(parts.kafka, names) as reader:
            workload.run(30)
            gateway.kill()
            workload.run(30)
            parts.start_gateway()
            mark = workload.mark()
            reader.wait_for(parts.topic("ledger"), mark.encode())
            capture.kill()
            workload.run(30)
            assert consume.ends(parts.kafka, names).keys() == set(names)
            parts.start_capture()
            mark = workload.mark()
            reader.wait_for(parts.topic("ledger"), mark.encode())
        ledger = fold(reader.records[parts.topic("ledger")], AvroDecoder(parts.registry_url))
        check_ledger(ledger, [workload])


def _copies(dsn: str) -> bool:
    """Wait until the capture copies a table; False when it has not begun to for a while."""
    query = """SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND state = 'active' AND query LIKE 'COPY%'"""
    deadline = time.monotonic() + 3
    with psycopg.connect(dsn, autocommit=True) as connection:
        while time.monotonic() < deadline:
            if connection.execute(query).fetchone():
                return True
    return False


def _until_it_answers(watermarks: Watermarks) -> None:
    """Look at the watermarks as soon as the gateway is back."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return watermarks.look()
        except KafkaException:
            assert time.monotonic() < deadline, "the gateway did not come back"


def _until_topics(service: Service | Parts, names: Sequence[str]) -> None:
    """Wait until every topic is served."""
    deadline = time.monotonic() + 30
    while set(consume.topics(service.kafka, service.prefix)) < set(names):
        assert time.monotonic() < deadline, "the topics did not appear"
        time.sleep(0.05)
