"""The reference table of debezium/02, event by event: every key, value and header of its fixture."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from capture.envelope import (
    COMMITTED,
    COMPILED,
    FED,
    Encoder,
    Plan,
    SnapshotMarker,
    message_plan,
    new_encoder,
    plan_for,
    topic_name,
)
from capture.envelope.options import Encoding
from protocol.records import Record, records
from tests.capture.envelope import fixtures, frames

FIXTURE: Final = fixtures.scenario("customers")
RECORDS: Final = FIXTURE["records"]
OID: Final = 16_400
CARL: Final = (b"3", b"Carl", b"carl@example.com", b"-1.05", b"2026-02-03 04:05:06.123456+00")


def changed(**cells: bytes | None) -> list[bytes | None]:
    """Carl's row with other values."""
    names = ("id", "first_name", "email", "balance", "created_at")
    return [cells.get(name, value) for name, value in zip(names, CARL, strict=True)]


POOR: Final = {"email": b"carl2@example.com", "balance": None, "created_at": None}
RICH: Final = {**POOR, "email": b"carl3@example.com"}
GONE: Final = {**RICH, "id": b"1003"}
#: What the stream sends for each event; the key change makes three records.
CHANGES: Final = (
    lambda lsn: frames.insert(lsn, OID, changed()),
    lambda lsn: frames.update(lsn, OID, changed(email=b"carl2@example.com")),
    lambda lsn: frames.update(lsn, OID, changed(**POOR)),
    lambda lsn: frames.update(lsn, OID, changed(**RICH), changed(**POOR)),
    lambda lsn: frames.update(lsn, OID, changed(**GONE), changed(**RICH)),
    lambda lsn: frames.delete(lsn, OID, changed(**GONE)),
    lambda lsn: frames.delete(lsn, OID, [b"2", None, None, None, None], b"K"),
    lambda lsn: frames.truncate(lsn, OID),
)


class Story:
    """Plays the fixture into an encoder."""

    def __init__(self, encoding: Encoding, compiled: bool) -> None:
        self.options = replace(
            fixtures.options(FIXTURE["config"], encoding), run_id=RECORDS[0]["headers"][-1][1]
        )
        table = fixtures.table(fixtures.recorded()["customers"][0])
        topic = topic_name(self.options, table.schema, table.name)
        self.plan: Plan = plan_for(table, self.options, topic=topic, ids=lambda subject, schema: 1)
        self.encoder: Encoder = new_encoder(self.options, compiled=compiled)
        self.encoder.set_relation(OID, self.plan, range(5))
        self.encoder.set_message_plan(message_plan(self.options, ids=lambda subject, schema: 1))
        self.found: list[tuple[str, Record]] = []

    def take(self) -> list[tuple[str, Record]]:
        """The records since the last call."""
        return [
            (output.topic, record)
            for output in self.encoder.take()
            for record in records(memoryview(output.batch))
        ]

    def begin(self, source: dict[str, Any], now: int) -> int:
        """Start the transaction of an event; its LSN."""
        last, lsn = json.loads(source["sequence"])
        self.encoder.last_commit_lsn = None if last is None else int(last)
        begin = frames.begin(int(lsn), int(lsn) + 1, source["ts_us"], source["txId"])
        assert self.encoder.feed(begin, now) == FED
        return int(lsn)

    def commit(self, lsn: int, now: int) -> None:
        """End it."""
        assert self.encoder.feed(frames.commit(lsn + 1, lsn + 2, 0), now) == COMMITTED

    def play(self) -> list[tuple[str, Record]]:
        """All records of the fixture, in order."""
        out: list[tuple[str, Record]] = []
        rows = fixtures.recorded()["customers"][0]["rows"]
        for record, row in zip(RECORDS[:2], rows, strict=False):
            value = record["value"]
            source = value["source"]
            self.encoder.set_snapshot(source["lsn"], source["txId"], source["ts_us"])
            fields = [fixtures.binary(cell) for cell in row]
            marker = SnapshotMarker(source["snapshot"])
            self.encoder.feed_copy(OID, frames.copy_row(fields), marker, value["ts_ns"])
            out += self.take()
        place = 2
        for change in CHANGES:
            value = RECORDS[place]["value"]
            lsn = self.begin(value["source"], value["ts_ns"])
            assert self.encoder.feed(change(lsn), value["ts_ns"]) == FED
            assert self.encoder.take() == []
            self.commit(lsn, value["ts_ns"])
            taken = self.take()
            place += len(taken)
            out += taken
        return out


def expected(encoding: Encoding, record: dict[str, Any], part: str) -> Any:
    """Key or value of a fixture record."""
    if record.get("tombstone") and part == "value":
        return None
    if encoding is Encoding.AVRO:
        body = record.get(f"{part}_avro_hex")
        return None if body is None else bytes.fromhex("0000000001" + body)
    return record[part]


def normal(value: Any, clock: dict[str, Any] | None = None) -> Any:
    """The halves of a key change have clock readings of their own in the fixture."""
    return (
        value if clock is None else {**value, **{name: clock[name] for name in ("ts_ms", "ts_us", "ts_ns")}}
    )


@pytest.mark.parametrize("compiled", [False, True] if COMPILED else [False])
def test_json_of_every_event(compiled: bool) -> None:
    story = Story(Encoding.JSON, compiled)
    found = story.play()
    wanted = [record for record in RECORDS if not record["topic"].endswith(".message")]
    assert len(found) == len(wanted)
    previous: dict[str, Any] = {}
    for (topic, record), theirs in zip(found, wanted, strict=True):
        assert topic == theirs["topic"]
        assert (record.key and json.loads(record.key)) == theirs["key"]
        assert [[name, (text or b"").decode()] for name, text in record.headers] == theirs["headers"]
        if theirs.get("tombstone"):
            assert record.value is None
            continue
        assert record.value is not None
        value = json.loads(record.value)
        second_half = any(name == "__debezium.oldkey" for name, _ in record.headers)
        assert json.dumps(value) == json.dumps(normal(theirs["value"], previous if second_half else None))
        previous = value


@pytest.mark.parametrize("compiled", [False, True] if COMPILED else [False])
def test_avro_of_every_event(compiled: bool) -> None:
    story = Story(Encoding.AVRO, compiled)
    wanted = [record for record in RECORDS if not record["topic"].endswith(".message")]
    for (_, record), theirs in zip(story.play(), wanted, strict=True):
        assert record.key == expected(Encoding.AVRO, theirs, "key")
        if not any(name == "__debezium.oldkey" for name, _ in record.headers):
            assert record.value == expected(Encoding.AVRO, theirs, "value")


@pytest.mark.parametrize("encoding", [Encoding.AVRO, Encoding.JSON])
@pytest.mark.parametrize("compiled", [False, True] if COMPILED else [False])
def test_logical_messages(compiled: bool, encoding: Encoding) -> None:
    story = Story(encoding, compiled)
    transactional, alone = (record for record in RECORDS if record["topic"].endswith(".message"))
    now = transactional["value"]["ts_ms"] * 1_000_000
    lsn = story.begin(transactional["value"]["source"], now)
    assert not story.encoder.emit_message("app.audit", b"hello tx", lsn, True, now)
    story.commit(lsn, now)
    late = alone["value"]["ts_ms"] * 1_000_000
    position = alone["value"]["source"]["lsn"]
    assert story.encoder.emit_message("app.audit", b"hello notx", position, False, late)
    assert story.encoder.commit_end_lsn == story.encoder.last_commit_lsn == position
    for (topic, record), theirs in zip(story.take(), (transactional, alone), strict=True):
        assert topic == theirs["topic"]
        assert record.headers == ()
        if encoding is Encoding.AVRO:
            assert record.key == expected(encoding, theirs, "key")
            if theirs is transactional:
                assert record.value == expected(encoding, theirs, "value")
            continue
        assert record.key is not None
        assert record.value is not None
        assert json.loads(record.key) == theirs["key"]
        value = json.loads(record.value)
        if theirs is alone:  # debezium/12 no. 26: the connector's clock instead of the last commit's time
            for name, reading in (("ts_ms", late // 10**6), ("ts_us", late // 1000), ("ts_ns", late)):
                assert value["source"].pop(name) == reading
                theirs = {**theirs, "value": {**theirs["value"], "source": dict(theirs["value"]["source"])}}
                theirs["value"]["source"].pop(name)
        assert value == theirs["value"]


def test_schemas_are_those_of_the_reference() -> None:
    story = Story(Encoding.AVRO, compiled=False)
    assert story.plan.key_schema == json.dumps(
        FIXTURE["schemas"][RECORDS[0]["key_avro_schema"]], separators=(",", ":")
    )
    assert story.plan.value_schema == json.dumps(
        FIXTURE["schemas"][RECORDS[0]["value_avro_schema"]], separators=(",", ":")
    )
    registered: dict[str, str] = {}
    message_plan(story.options, ids=lambda subject, schema: len(registered.setdefault(subject, schema)))
    message = next(record for record in RECORDS if record["topic"].endswith(".message"))
    for part in ("key", "value"):
        theirs = FIXTURE["schemas"][message[f"{part}_avro_schema"]]
        assert registered[f"inventory.message-{part}"] == json.dumps(theirs, separators=(",", ":"))


def test_the_reference_names_the_registered_text(tmp_path: Path) -> None:
    """The JSON schema is a constant prefix of each message."""
    plan = Story(Encoding.JSON_WITH_SCHEMA, compiled=False).plan
    theirs = FIXTURE["schemas"][RECORDS[0]["value_connect_schema"]]
    assert plan.value_schema == json.dumps(theirs, separators=(",", ":"))
    assert (
        plan.layout.start
        == b'{"schema":' + json.dumps(theirs, separators=(",", ":")).encode() + b',"payload":'
    )
