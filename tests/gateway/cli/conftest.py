"""A small change log with decoded and undecodable records, and a way to run commands against it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import fastavro
import pytest
from click.testing import CliRunner, Result

from capture.log import Log, Writer
from gateway.cli import main
from protocol.records import Record, build

KEY = {
    "type": "record",
    "name": "Key",
    "namespace": "shop.public.items",
    "fields": [{"name": "id", "type": "int"}],
}
ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "picture", "type": ["null", "bytes"]},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.items",
    "fields": [
        {"name": "before", "type": ["null", ROW]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": "string"},
    ],
}
FIRST_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("TIDEGATE_"):
            monkeypatch.delenv(name)


@pytest.fixture
def run() -> Callable[..., Result]:
    """Run a command line in this process."""
    runner = CliRunner()

    def invoke(*arguments: str | Path) -> Result:
        return runner.invoke(main, [str(argument) for argument in arguments])

    return invoke


class Items:
    """A log in `data` with the topic shop.public.items, to which records can be added."""

    topic = "shop.public.items"

    def __init__(self, data: Path) -> None:
        self.data = data
        self.log = Log.open(data, create=True)
        self.writer = Writer.open(self.log, "shop")
        self.ids = {
            side: self.log.schemas.register(f"{self.topic}-{side}", json.dumps(schema))
            for side, schema in (("key", KEY), ("value", ENVELOPE))
        }
        topic = self.log.catalog.create_topic(self.topic, capture="shop", config={"retention.ms": "60000"})
        self._partition = self.writer.partition(topic)
        self._schemas = {"key": fastavro.parse_schema(KEY), "value": fastavro.parse_schema(ENVELOPE)}

    def close(self) -> None:
        self.writer.close()
        self.log.close()

    def avro(self, side: str, value: object) -> bytes:
        """The value in Confluent's wire format."""
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._schemas[side], value)
        return b"\0" + self.ids[side].to_bytes(4, "big") + out.getvalue()

    def add(self, *pairs: tuple[bytes | None, bytes | None]) -> int:
        """Commit records as one batch; returns the offset after them."""
        first = self._partition.next_offset
        records = [
            Record(first + place, FIRST_MS + first + place, key, value, (("origin", b"test"),))
            for place, (key, value) in enumerate(pairs)
        ]
        batch = bytearray(build(records, first))
        end = self.writer.append(self._partition, [batch])
        self.writer.commit(json.dumps({"lsn": f"0/{end}"}), {self._partition: end})
        return end

    def add_row(self, number: int, op: str = "c") -> int:
        """Commit a change of the row `number`."""
        row = {"id": number, "price": Decimal("12.50"), "picture": b"\x01\xff"}
        after = None if op == "d" else row
        before = row if op == "d" else None
        value = {"before": before, "after": after, "op": op}
        return self.add((self.avro("key", {"id": number}), self.avro("value", value)))


@pytest.fixture
def items(tmp_path: Path) -> Iterator[Items]:
    """The log with its topic, empty."""
    made = Items(tmp_path / "data")
    yield made
    made.close()
