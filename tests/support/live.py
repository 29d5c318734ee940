"""A shop that is captured and served while its workload goes on; what a client must have read of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import psycopg

from tests.support import consume, shop
from tests.support.clients.runners import Client
from tests.support.fold import AvroDecoder, Decode, Fold, Record, decode_json, differences, fold
from tests.support.service import Service

JSON_SETTINGS = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "decimal.handling.mode": "string",
}


class LiveShop:
    """`tidegate serve` over a shop; the workload's rows before the start are its snapshot."""

    def __init__(
        self,
        dsn: str,
        data: Path,
        *,
        settings: Mapping[str, str] | None = None,
        before: int = 150,
        seed: int = 1,
    ) -> None:
        self.dsn = dsn
        self.service = Service(dsn, data, settings=settings)
        self.workload = shop.Workload(dsn, seed=seed)
        self.topics = sorted(self.service.topic(table) for table in shop.TABLES)
        self._before = before
        self._avro = "value.converter" not in (settings or {})

    def __enter__(self) -> LiveShop:
        """Returns when the snapshot was taken: what the workload does from then on is streamed."""
        self.workload.run(self._before)
        self.service.start()
        ledger = self.service.topic("ledger")
        with consume.Reader(self.service.kafka, [ledger]) as reader:
            reader.wait(lambda got: bool(got[ledger]))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.workload.close()
        self.service.stop()

    @property
    def decode(self) -> Decode:
        """The decoder of its topics."""
        return AvroDecoder(self.service.registry_url) if self._avro else decode_json

    def settle(self) -> dict[str, list[Record]]:
        """Mark the ledger, wait until the mark is served, and read all topics up to there."""
        mark = self.workload.mark()
        ledger = self.service.topic("ledger")
        with consume.Reader(self.service.kafka, [ledger]) as reader:
            reader.wait_for(ledger, mark.encode())
        return consume.read(self.service.kafka, self.topics)

    def judge(self, client: Client, *, changes: int = 60, topics: Sequence[str] | None = None) -> None:
        """Let the client read while the shop changes; it must have read exactly what is there, in order."""
        names = list(topics or self.topics)
        already = sum(consume.ends(self.service.kafka, names).values())
        client.wait(already)
        self.workload.run(changes)
        expected = {name: records for name, records in self.settle().items() if name in names}
        assert sum(map(len, expected.values())) > already, "nothing was streamed"
        found = client.wait(sum(map(len, expected.values())))
        self.compare(expected, found)

    @staticmethod
    def compare(expected: Mapping[str, Sequence[Record]], found: Sequence[Record]) -> None:
        """Every record once, byte for byte, in offset order within its topic."""
        doubled = [key for key, n in Counter((r.topic, r.offset) for r in found).items() if n > 1]
        assert doubled == []
        for name, records in expected.items():
            assert [record for record in found if record.topic == name] == list(records), name

    def folded(
        self, records: Mapping[str, Sequence[Record]], decode: Decode | None = None
    ) -> dict[str, Fold]:
        """Each topic folded strictly, by its table."""
        decoder = decode or self.decode
        return {name.rpartition(".")[2]: fold(found, decoder) for name, found in records.items()}

    def differences(self, folds: Mapping[str, Fold]) -> list[str]:
        """What differs between tables and folded topics, found by the server."""
        with psycopg.connect(self.dsn) as connection:
            return [
                line
                for table, done in folds.items()
                for line in differences(connection, table, done.result())
            ]
