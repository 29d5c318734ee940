"""What an encoder does with the stream: transactions, keys, old rows, skipping, batches (debezium/04)."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any, Final

import pytest

from capture.envelope import (
    COMMITTED,
    COMPILED,
    FED,
    NEEDS_PYTHON,
    Column,
    Encoder,
    EnvelopeOptions,
    MalformedMessage,
    Output,
    SnapshotMarker,
    Table,
    TypeInfo,
    UnrepresentableValue,
    copy_columns,
    message_plan,
    new_encoder,
    plan_for,
    topic_name,
)
from capture.envelope.options import Converter, Encoding
from protocol.records import Record, check_crc, read_header, records
from tests.capture.envelope import frames

pytestmark = pytest.mark.parametrize("compiled", [False, True] if COMPILED else [False])

OID: Final = 16_400
NOW: Final = 1_795_224_705_608_749_081
COMMIT_US: Final = 1_795_224_705_140_135
JSON: Final = Converter(encoding=Encoding.JSON)
OPTIONS: Final = EnvelopeOptions(topic_prefix="shop", database="db", key=JSON, value=JSON, run_id="run")
ID: Final = Column("id", TypeInfo(23, "int4"), nullable=False)
NOTE: Final = Column("note", TypeInfo(25, "text"))
NAME: Final = Column("name", TypeInfo(25, "text"), nullable=False)
AMOUNT: Final = Column("amount", TypeInfo(1700, "numeric"), nullable=False)
ITEMS: Final = Table("public", "items", (ID, NOTE), ("id",))


def prepare(compiled: bool, table: Table = ITEMS, **changes: Any) -> Encoder:
    """An encoder that knows one table."""
    options = replace(OPTIONS, **changes)
    topic = topic_name(options, table.schema, table.name)
    plan = plan_for(table, options, topic=topic, ids=lambda subject, schema: 1)
    encoder = new_encoder(options, compiled=compiled)
    assert encoder.compiled is compiled
    encoder.set_relation(OID, plan, range(len(table.columns)))
    return encoder


def begin(encoder: Encoder, lsn: int = 100, final_lsn: int = 190, xid: int = 7) -> None:
    """Start a transaction."""
    assert encoder.feed(frames.begin(lsn, final_lsn, COMMIT_US, xid), NOW) == FED


def commit(encoder: Encoder, end_lsn: int = 200) -> None:
    """End it."""
    assert encoder.feed(frames.commit(end_lsn - 10, end_lsn, COMMIT_US), NOW) == COMMITTED


def change(encoder: Encoder, message: bytes) -> None:
    """One change."""
    assert encoder.feed(message, NOW) == FED


def found(outputs: list[Output]) -> list[Record]:
    """All records of batches, their checksums checked."""
    out: list[Record] = []
    for output in outputs:
        view = memoryview(output.batch)
        check_crc(view, 0)
        inside = list(records(view))
        header = read_header(view)
        assert [record.offset for record in inside] == list(range(output.record_count))
        assert header.max_timestamp == output.max_timestamp == max(record.timestamp for record in inside)
        out += inside
    return out


def transaction(encoder: Encoder, *messages: bytes) -> list[Record]:
    """The records of one transaction."""
    begin(encoder)
    for message in messages:
        change(encoder, message)
    commit(encoder)
    return found(encoder.take())


def value(record: Record) -> Any:
    """A record's value."""
    return None if record.value is None else json.loads(record.value)


def key(record: Record) -> Any:
    """A record's key."""
    return None if record.key is None else json.loads(record.key)


def test_nothing_is_given_before_the_commit(compiled: bool) -> None:
    encoder = prepare(compiled)
    begin(encoder)
    assert encoder.in_transaction
    change(encoder, frames.insert(100, OID, [b"1", b"a"]))
    assert encoder.take() == []
    assert encoder.pending_bytes > 0
    commit(encoder)
    assert not encoder.in_transaction
    assert (encoder.commit_end_lsn, encoder.last_commit_lsn) == (200, 200)
    (output,) = encoder.take()
    assert (output.topic, output.partition, output.committed) == ("shop.public.items", 0, True)
    assert encoder.pending_bytes == 0
    assert encoder.take() == []
    assert encoder.counters == {("shop.public.items", "c"): 1}


def test_source_of_a_change(compiled: bool) -> None:
    encoder = prepare(compiled)
    (first,) = transaction(encoder, frames.insert(101, OID, [b"1", b"a"]))
    (second,) = transaction(encoder, frames.insert(301, OID, [b"2", b"b"]))
    assert value(first)["source"] == {
        "version": "3.6.3.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": COMMIT_US // 1000,
        "snapshot": "false",
        "db": "db",
        "sequence": '[null,"101"]',
        "ts_us": COMMIT_US,
        "ts_ns": COMMIT_US * 1000,
        "schema": "public",
        "table": "items",
        "txId": 7,
        "lsn": 101,
        "xmin": None,
        "origin": None,
        "origin_lsn": None,
    }
    assert value(second)["source"]["sequence"] == '["200","301"]'
    assert (value(first)["ts_ms"], value(first)["ts_us"], value(first)["ts_ns"]) == (
        NOW // 1_000_000,
        NOW // 1000,
        NOW,
    )
    assert first.timestamp == NOW // 1_000_000


def test_origin_lasts_for_its_transaction(compiled: bool) -> None:
    encoder = prepare(compiled)
    begin(encoder, lsn=0)
    change(encoder, frames.origin(101, b"upstream1", 0xABC123))
    change(encoder, frames.insert(101, OID, [b"1", None]))
    commit(encoder)
    first, second = transaction(encoder, frames.insert(301, OID, [b"2", None]))
    assert value(first)["source"]["origin"] == "upstream1"
    assert value(first)["source"]["origin_lsn"] == 11_256_099
    assert value(second)["source"]["origin"] is None
    assert value(second)["source"]["origin_lsn"] is None


def test_update_without_old_tuple(compiled: bool) -> None:
    (record,) = transaction(prepare(compiled), frames.update(101, OID, [b"1", b"b"]))
    assert (value(record)["op"], value(record)["before"], value(record)["after"]) == (
        "u",
        None,
        {"id": 1, "note": "b"},
    )


def test_key_tuple_fills_what_it_does_not_have(compiled: bool) -> None:
    table = replace(ITEMS, columns=(ID, NOTE, NAME, AMOUNT))
    encoder = prepare(compiled, table)
    deleted, tombstone = transaction(encoder, frames.delete(101, OID, [b"2", None, None, None], b"K"))
    assert value(deleted)["before"] == {
        "id": 2,
        "note": None,
        "name": "",
        "amount": {"scale": 0, "value": "AA=="},
    }
    assert value(deleted)["op"] == "d"
    assert (key(tombstone), tombstone.value) == ({"id": 2}, None)
    assert tombstone.headers == deleted.headers


def test_key_change_is_delete_tombstone_create(compiled: bool) -> None:
    encoder = prepare(compiled)
    deleted, tombstone, created = transaction(
        encoder, frames.update(101, OID, [b"3", frames.UNCHANGED], [b"1", b"long"])
    )
    context = {
        "connectorLogicalName": b"shop",
        "taskId": b"0",
        "connectorName": b"postgresql",
        "runId": b"run",
    }
    headers = tuple((f"__debezium.context.{name}", text) for name, text in context.items())
    assert (value(deleted)["op"], key(deleted), value(deleted)["after"]) == ("d", {"id": 1}, None)
    assert deleted.headers == tombstone.headers == (("__debezium.newkey", b'{"id":3}'), *headers)
    assert (value(created)["op"], key(created), value(created)["before"]) == ("c", {"id": 3}, None)
    assert value(created)["after"] == {"id": 3, "note": "long"}
    assert created.headers == (("__debezium.oldkey", b'{"id":1}'), *headers)
    assert encoder.counters == {("shop.public.items", "d"): 1, ("shop.public.items", "c"): 1}


def test_same_key_in_the_old_tuple_is_an_update(compiled: bool) -> None:
    (record,) = transaction(prepare(compiled), frames.update(101, OID, [b"1", b"b"], [b"1", None], b"K"))
    assert value(record)["op"] == "u"
    assert value(record)["before"] == {"id": 1, "note": None}


def test_table_without_key(compiled: bool) -> None:
    encoder = prepare(compiled, replace(ITEMS, key=()))
    updated, deleted, tombstone = transaction(
        encoder,
        frames.update(101, OID, [b"2", b"b"], [b"1", b"a"]),
        frames.delete(102, OID, [b"2", b"b"]),
    )
    assert (value(updated)["op"], value(deleted)["op"]) == ("u", "d")
    assert [record.key for record in (updated, deleted, tombstone)] == [None] * 3
    assert tombstone.value is None


def test_excluded_column_stays_in_the_key(compiled: bool) -> None:
    table = replace(ITEMS, columns=(replace(ID, excluded=True), NOTE))
    (record,) = transaction(prepare(compiled, table), frames.insert(101, OID, [b"1", b"a"]))
    assert (key(record), value(record)["after"]) == ({"id": 1}, {"note": "a"})


def test_key_follows_its_own_order(compiled: bool) -> None:
    table = Table("public", "ck", (ID, NAME, replace(ID, name="c")), ("c", "id"))
    (record,) = transaction(prepare(compiled, table), frames.insert(101, OID, [b"1", b"a", b"3"]))
    assert record.key == b'{"c":3,"id":1}'


def test_skipped_operations(compiled: bool) -> None:
    encoder = prepare(compiled, skipped_operations=frozenset("cut"))
    found_records = transaction(
        encoder,
        frames.insert(101, OID, [b"1", None]),
        frames.update(101, OID, [b"1", b"b"]),
        frames.truncate(101, OID),
        frames.update(101, OID, [b"2", b"b"], [b"1", b"b"]),
    )
    assert [value(record) and value(record)["op"] for record in found_records] == ["d", None]


def test_without_tombstones_and_context(compiled: bool) -> None:
    encoder = prepare(compiled, tombstones_on_delete=False, extended_headers=False)
    (record,) = transaction(encoder, frames.delete(101, OID, [b"1", b"a"]))
    assert (value(record)["op"], record.headers) == ("d", ())


def test_truncate_of_two_tables(compiled: bool) -> None:
    encoder = prepare(compiled, skipped_operations=frozenset())
    other = replace(ITEMS, name="others")
    plan = plan_for(other, OPTIONS, topic="shop.public.others", ids=lambda subject, schema: 1)
    begin(encoder)
    both = frames.truncate(101, OID, OID + 1)
    assert encoder.feed(both, NOW) == NEEDS_PYTHON
    encoder.set_relation(OID + 1, replace(plan, skipped=frozenset()), range(2))
    change(encoder, both)
    commit(encoder)
    first, second = found(encoder.take())
    assert (value(first)["op"], value(first)["source"]["table"], first.key) == ("t", "items", None)
    assert (value(second)["before"], value(second)["after"]) == (None, None)
    assert value(second)["source"]["table"] == "others"


def test_what_is_left_to_python(compiled: bool) -> None:
    encoder = prepare(compiled)
    for tag in (b"R", b"Y", b"M", b"S"):
        assert encoder.feed(frames.frame(0, tag + b"whatever"), NOW) == NEEDS_PYTHON
    begin(encoder)
    assert encoder.feed(frames.insert(101, OID + 1, [b"1"]), NOW) == NEEDS_PYTHON
    encoder.ignore_relation(OID + 1)
    change(encoder, frames.insert(101, OID + 1, [b"1"]))
    encoder.drop_relation(OID + 1)
    assert encoder.feed(frames.insert(101, OID + 1, [b"1"]), NOW) == NEEDS_PYTHON
    commit(encoder)
    assert encoder.take() == []


def test_transactions_before_the_resume_point_are_skipped(compiled: bool) -> None:
    encoder = prepare(compiled)
    encoder.resume_lsn = 200
    encoder.last_commit_lsn = 200
    begin(encoder, final_lsn=190)
    change(encoder, frames.insert(101, OID, [b"1", None]))
    change(encoder, frames.insert(101, OID + 1, [b"1", None]))
    assert encoder.feed(frames.commit(190, 200, COMMIT_US), NOW) == FED
    assert encoder.take() == []
    begin(encoder, lsn=210, final_lsn=290)
    change(encoder, frames.insert(210, OID, [b"2", None]))
    commit(encoder, 300)
    (record,) = found(encoder.take())
    assert value(record)["source"]["sequence"] == '["200","210"]'


def test_hidden_relation(compiled: bool) -> None:
    encoder = prepare(compiled)
    asked: list[int] = []

    def visible(xid: int) -> bool:
        asked.append(xid)
        return xid == 7

    encoder.hide(OID, visible)
    begin(encoder, xid=7)
    change(encoder, frames.insert(101, OID, [b"1", None]))
    change(encoder, frames.insert(101, OID, [b"2", None]))
    commit(encoder)
    begin(encoder, xid=8)
    change(encoder, frames.insert(301, OID, [b"3", None]))
    commit(encoder, 400)
    encoder.unhide(OID)
    begin(encoder, xid=7)
    change(encoder, frames.insert(501, OID, [b"4", None]))
    commit(encoder, 600)
    assert [value(record)["after"]["id"] for record in found(encoder.take())] == [3, 4]
    assert asked == [7, 8]


def test_open_transaction_is_given_only_when_asked(compiled: bool) -> None:
    encoder = prepare(compiled)
    transaction_one = frames.insert(101, OID, [b"1", None])
    begin(encoder)
    change(encoder, transaction_one)
    commit(encoder)
    begin(encoder, lsn=301, final_lsn=390)
    for number in (b"2", b"3"):
        assert encoder.feed(frames.insert(301, OID, [number, None]), NOW + 10**9) == FED
    (complete,) = encoder.take()
    assert (complete.record_count, complete.committed) == (1, True)
    (spilled,) = encoder.take(include_open=True)
    assert (spilled.record_count, spilled.committed) == (2, False)
    found([complete, spilled])
    assert read_header(memoryview(spilled.batch)).base_timestamp == NOW // 10**6 + 1000
    change(encoder, frames.insert(301, OID, [b"4", None]))
    commit(encoder, 400)
    assert [value(record)["after"]["id"] for record in found(encoder.take())] == [4]


def test_a_batch_never_mixes_open_and_complete(compiled: bool) -> None:
    encoder = prepare(compiled)
    begin(encoder)
    change(encoder, frames.insert(101, OID, [b"1", None]))
    commit(encoder)
    begin(encoder, lsn=301, final_lsn=390)
    change(encoder, frames.insert(301, OID, [b"2", None]))
    outputs = encoder.take(include_open=True)
    assert [(output.record_count, output.committed) for output in outputs] == [(1, True), (1, False)]
    assert [value(record)["after"]["id"] for record in found(outputs)] == [1, 2]


def test_discarded_transaction_comes_again(compiled: bool) -> None:
    encoder = prepare(compiled)
    begin(encoder)
    change(encoder, frames.insert(101, OID, [b"1", None]))
    commit(encoder)
    begin(encoder, lsn=301, final_lsn=390)
    change(encoder, frames.insert(301, OID, [b"2", None]))
    encoder.discard_open()
    assert not encoder.in_transaction
    begin(encoder, lsn=301, final_lsn=390)
    change(encoder, frames.insert(301, OID, [b"2", None]))
    commit(encoder, 400)
    assert [value(record)["after"]["id"] for record in found(encoder.take())] == [1, 2]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_cut_and_compressed(compiled: bool, codec: str) -> None:
    encoder = prepare(compiled, batch_bytes=4000, compression=codec)
    begin(encoder)
    for number in range(50):
        change(encoder, frames.insert(101, OID, [b"%d" % number, b"x" * 40]))
    commit(encoder)
    outputs = encoder.take()
    assert len(outputs) > 3
    assert [value(record)["after"]["id"] for record in found(outputs)] == list(range(50))
    if codec == "none":
        assert all(len(output.batch) < 5000 for output in outputs)


def test_a_batch_in_use_is_never_written_again(compiled: bool) -> None:
    encoder = prepare(compiled)
    kept = []
    for number in range(20):
        begin(encoder)
        change(encoder, frames.insert(101, OID, [b"%d" % number, b"x" * 100]))
        commit(encoder)
        (output,) = encoder.take()
        view = memoryview(output.batch)
        kept.append((number, view[61:] if number % 2 else output))
    for number, thing in kept:
        raw = bytes(thing) if isinstance(thing, memoryview) else bytes(thing.batch[61:])
        assert b'"id":%d,' % number in raw


def test_unrepresentable_value(compiled: bool) -> None:
    encoder = prepare(compiled, replace(ITEMS, columns=(ID, replace(AMOUNT, nullable=True))))
    (record,) = transaction(encoder, frames.insert(101, OID, [b"1", b"NaN"]))
    assert value(record)["after"] == {"id": 1, "amount": None}
    encoder = prepare(compiled, replace(ITEMS, columns=(ID, AMOUNT)))
    begin(encoder)
    with pytest.raises(
        UnrepresentableValue, match=r"public\.items, column amount: NaN .*use double or string"
    ):
        encoder.feed(frames.insert(101, OID, [b"1", b"NaN"]), NOW)
    change(encoder, frames.insert(101, OID, [b"2", b"1.5"]))
    commit(encoder)
    (record,) = found(encoder.take())
    assert key(record) == {"id": 2}


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (b"w", "shorter than its header"),
        (b"x" * 40, "shorter than its header"),
        (frames.frame(1, b"B" + b"\0" * 19), "20 bytes instead of 21"),
        (frames.frame(1, b"B" + b"\0" * 20), "begins inside another"),
        (frames.frame(1, b"C" + b"\0" * 3), "instead of 26"),
        (frames.frame(1, b"I\0\0"), "shorter than its header"),
        (frames.insert(1, OID, [b"1"]), "has 1 columns, its Relation message had 2"),
        (frames.insert(1, OID, [b"1", b"a"])[:-1], "ends before the end of a column"),
        (frames.insert(1, OID, [b"1", b"a"])[:-3], "ends inside a column's length"),
        (frames.insert(1, OID, [b"1", b"a"]) + b"n", "bytes follow the last tuple"),
        (frames.insert(1, OID, [b"one", b"a"]), r"public\.items, column id: .* no 32-bit integer"),
        (frames.insert(1, OID, [b"3000000000", b"a"]), "no 32-bit integer"),
        (frames.delete(1, OID, [b"1", b"a"], b"N"), "no K or O tuple"),
        (frames.insert(1, OID, [b"1", None])[:-1] + b"b", "a column binary; the stream is asked for text"),
        (frames.insert(1, OID, [b"1", None])[:-1] + b"z", "of unknown kind 122"),
        (frames.truncate(1, OID)[:-1], "contradicts its count"),
        (frames.origin(1, b"a\0b", 5), "not a position and a name"),
    ],
)
def test_malformed_messages(compiled: bool, message: bytes, complaint: str) -> None:
    encoder = prepare(compiled)
    begin(encoder)
    with pytest.raises(MalformedMessage, match=complaint):
        encoder.feed(message, NOW)
    assert encoder.pending_bytes == 0
    change(encoder, frames.insert(101, OID, [b"1", b"a"]))
    commit(encoder)


@pytest.mark.parametrize(
    "message",
    [
        frames.insert(1, OID, [b"1", b"a"]),
        frames.commit(1, 2, 3),
        frames.truncate(1, OID),
        frames.origin(1, b"o", 1),
    ],
)
def test_changes_need_a_transaction(compiled: bool, message: bytes) -> None:
    with pytest.raises(MalformedMessage, match="outside a transaction"):
        prepare(compiled).feed(message, NOW)


def test_snapshot_rows(compiled: bool) -> None:
    encoder = prepare(compiled)
    encoder.set_snapshot(26_418_752, 827, COMMIT_US)
    rows = [frames.copy_row([number.to_bytes(4, "big"), b"a"]) for number in range(3)]
    for row, marker in zip(
        rows, (SnapshotMarker.FIRST, SnapshotMarker.TRUE, SnapshotMarker.LAST), strict=True
    ):
        encoder.feed_copy(OID, memoryview(row), marker, NOW)
    first, _, last = (value(record) for record in found(encoder.take()))
    assert (first["op"], first["source"]["snapshot"], last["source"]["snapshot"]) == ("r", "first", "last")
    assert first["source"]["sequence"] == '[null,"26418752"]'
    assert (first["source"]["txId"], first["source"]["lsn"]) == (827, 26_418_752)
    assert last["after"] == {"id": 2, "note": "a"}
    encoder.feed_copy(OID, rows[0], SnapshotMarker.INCREMENTAL, NOW)
    (incremental,) = (value(record) for record in found(encoder.take()))
    assert (incremental["source"]["txId"], incremental["source"]["lsn"]) == (None, None)
    assert incremental["source"]["sequence"] == '[null,"26418752"]'
    assert encoder.counters == {("shop.public.items", "r"): 4}
    for row in (rows[0][:-1], rows[0] + b"x", b"\x00\x01", b""):
        with pytest.raises(MalformedMessage):
            encoder.feed_copy(OID, row, SnapshotMarker.TRUE, NOW)


def test_snapshot_by_plan(compiled: bool) -> None:
    plan = plan_for(ITEMS, OPTIONS, topic="shop.public.items", ids=lambda subject, schema: 1)
    encoder = new_encoder(OPTIONS, compiled=compiled)
    encoder.feed_copy(plan, frames.copy_row([bytes(4), None]), SnapshotMarker.TRUE, NOW)
    (record,) = found(encoder.take())
    assert value(record)["after"] == {"id": 0, "note": None}
    with pytest.raises(ValueError, match="no plan"):
        encoder.feed_copy(99, b"", SnapshotMarker.TRUE, NOW)


def test_copy_expressions(compiled: bool) -> None:
    columns = (
        ID,
        Column('we"ird', TypeInfo(1042, "bpchar")),
        Column("address", TypeInfo(869, "inet")),
        Column("tags", TypeInfo(1009, "_text", element=TypeInfo(25, "text"))),
        Column("shape", TypeInfo(603, "box")),
        Column("secret", TypeInfo(25, "text"), excluded=True),
    )
    plan = plan_for(Table("public", "t", columns), OPTIONS, topic="t", ids=lambda subject, schema: 1)
    assert copy_columns(plan) == ['"id"', '"we""ird"', 'textin(inet_out("address"))', '"tags"::text']
    assert plan.unmapped == ("shape",)


def test_messages_outside_transactions(compiled: bool) -> None:
    encoder = prepare(compiled)
    with pytest.raises(ValueError, match="set_message_plan"):
        encoder.emit_message("p", b"x", 10, False, NOW)
    encoder.set_message_plan(message_plan(OPTIONS, ids=lambda subject, schema: 1))
    encoder.resume_lsn = 10
    assert not encoder.emit_message("p", b"x", 10, False, NOW)
    assert encoder.emit_message("p", b"x", 11, False, NOW)
    assert encoder.commit_end_lsn == 11
    with pytest.raises(MalformedMessage, match="outside a transaction"):
        encoder.emit_message("p", b"x", 12, True, NOW)
    (record,) = found(encoder.take())
    assert (key(record), value(record)["source"]["sequence"]) == ({"prefix": "p"}, '["11","11"]')
    assert (value(record)["source"]["txId"], value(record)["message"]) == (
        None,
        {"prefix": "p", "content": "eA=="},
    )


def test_run_id_is_a_new_uuid_of_version_7(compiled: bool) -> None:
    first, second = (EnvelopeOptions(topic_prefix="p", database="d").run_id for _ in range(2))
    assert first != second
    assert uuid.UUID(first).version == 7
    assert uuid.UUID(first).variant == uuid.RFC_4122


def test_a_giant_row(compiled: bool) -> None:
    """Eight megabytes of text that JSON makes six times as long, and as much of bytea."""
    table = replace(ITEMS, columns=(ID, NOTE, Column("raw", TypeInfo(17, "bytea"))))
    text, raw = b"\x1f" * 8_000_000, b"\\x" + b"ab" * 4_000_000
    (record,) = transaction(prepare(compiled, table), frames.insert(101, OID, [b"1", text, raw]))
    after = value(record)["after"]
    assert after["note"].encode() == text
    assert len(after["raw"]) == 5_333_336
    avro = prepare(compiled, table, value=Converter())
    (record,) = transaction(avro, frames.insert(101, OID, [b"1", text, raw]))
    assert record.value is not None
    assert text in record.value
    assert b"\xab" * 4_000_000 in record.value
