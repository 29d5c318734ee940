"""Rows to record batches: rows per core-second of the compiled encoder, the generated one and fastavro.

Ten columns, Debezium's value, batch and CRC included; `python -m tests.bench.bench_envelope` prints all.
"""

from __future__ import annotations

import io
import json
import struct
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import fastavro

from capture.envelope import (
    COMPILED,
    Column,
    Encoder,
    EnvelopeOptions,
    Plan,
    SnapshotMarker,
    Table,
    TypeInfo,
    new_encoder,
    plan_for,
    topic_name,
)
from capture.envelope.options import Converter, Encoding
from protocol.records import Record, build
from tests.bench.figures import at_least

FIGURES = ("envelope_avro", "envelope_json", "envelope_small", "envelope_snapshot")

ROWS: Final = 4_000
TAKE_EVERY: Final = 4_000
OID: Final = 16_400
POSTGRES_EPOCH_US: Final = 946_684_800_000_000
COMMIT_US: Final = 1_795_224_705_140_135
NOW_NS: Final = 1_795_224_705_608_749_081
OPTIONS: Final = EnvelopeOptions(topic_prefix="shop", database="shop")
TABLE: Final = Table(
    "public",
    "orders",
    (
        Column("id", TypeInfo(20, "int8"), nullable=False, default="nextval('orders_id_seq'::regclass)"),
        Column("customer_id", TypeInfo(23, "int4"), nullable=False),
        Column("status", TypeInfo(25, "text"), nullable=False),
        Column("note", TypeInfo(25, "text")),
        Column("amount", TypeInfo(1700, "numeric"), (10 << 16 | 2) + 4),
        Column("quantity", TypeInfo(21, "int2")),
        Column("paid", TypeInfo(16, "bool"), nullable=False, default="false"),
        Column("due", TypeInfo(1082, "date")),
        Column("created_at", TypeInfo(1184, "timestamptz"), nullable=False, default="now()"),
        Column("token", TypeInfo(2950, "uuid")),
    ),
    ("id",),
)


def _frame(lsn: int, payload: bytes) -> bytes:
    return b"w" + struct.pack(">QQq", lsn, lsn, 0) + payload


def texts(number: int) -> list[bytes]:
    """A row in text format."""
    return [
        b"%d" % (10_000_000 + number),
        b"%d" % (number * 7919 % 100_000),
        b"shipped" if number % 3 else b"ordered",
        b"leave it with the neighbour, number %d" % (number % 90),
        b"%d.%02d" % (number % 900, number % 100),
        b"%d" % (number % 12),
        b"t" if number % 2 else b"f",
        b"2026-%02d-%02d" % (number % 12 + 1, number % 28 + 1),
        b"2026-11-21 10:%02d:%02d.%06d+00" % (number % 60, number // 60 % 60, number),
        str(uuid.UUID(int=number * 0x1234567890ABCDEF1234567)).encode(),
    ]


def binaries(number: int) -> list[bytes]:
    """A row as COPY BINARY brings it."""
    amount = number % 900, number % 100
    return [
        struct.pack(">q", 10_000_000 + number),
        struct.pack(">i", number * 7919 % 100_000),
        texts(number)[2],
        texts(number)[3],
        struct.pack(">hhHhHH", 2, 0, 0, 2, amount[0], amount[1] * 100),
        struct.pack(">h", number % 12),
        bytes((number % 2,)),
        struct.pack(">i", 9_700 + number % 300),
        struct.pack(">q", COMMIT_US - POSTGRES_EPOCH_US + number),
        uuid.UUID(int=number * 0x1234567890ABCDEF1234567).bytes,
    ]


def insert(number: int) -> bytes:
    """An Insert message."""
    cells = b"".join(b"t" + struct.pack(">i", len(text)) + text for text in texts(number))
    body = b"I" + struct.pack(">I", OID) + b"N" + struct.pack(">H", 10) + cells
    return _frame(26_418_752 + 100 * number, body)


def options(encoding: Encoding) -> EnvelopeOptions:
    """The options of a bench."""
    return replace(OPTIONS, key=Converter(encoding=encoding), value=Converter(encoding=encoding))


def plan(encoding: Encoding) -> Plan:
    """The plan of the bench's table."""
    return plan_for(TABLE, options(encoding), topic=topic_name(OPTIONS, "public", "orders"), ids=lambda *_: 1)


def best(call: Callable[[], int], seconds: float = 2.0) -> float:
    """Rows per second of this process' CPU time, the best of several rounds: others use the machine too."""
    fastest = 0.0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        begun = time.process_time()
        rows = call()
        fastest = max(fastest, rows / (time.process_time() - begun))
    return fastest


def _encoder(encoding: Encoding, compiled: bool) -> Encoder:
    encoder = new_encoder(options(encoding), compiled=compiled)
    encoder.set_relation(OID, plan(encoding), range(10))
    return encoder


def bulk(encoding: Encoding, compiled: bool) -> float:
    """One large transaction, taken every now and then."""
    messages = [insert(number) for number in range(ROWS)]
    times = TAKE_EVERY // ROWS if compiled else 1
    encoder = _encoder(encoding, compiled)
    begin = _frame(1, b"B" + struct.pack(">QqI", 1 << 40, COMMIT_US - POSTGRES_EPOCH_US, 827))
    commit = _frame(1, b"C\x00" + struct.pack(">QQq", 1 << 40, 1 << 40, 0))

    def call() -> int:
        feed = encoder.feed
        feed(begin, NOW_NS)
        for _ in range(times):
            for message in messages:
                feed(message, NOW_NS)
        feed(commit, NOW_NS)
        encoder.take()
        return times * ROWS

    return best(call)


def small(encoding: Encoding, compiled: bool) -> float:
    """One-row transactions, each with a clock reading of its own."""
    stream = []
    for number in range(ROWS):
        lsn = 26_418_752 + 200 * number
        time_us = COMMIT_US - POSTGRES_EPOCH_US + 50 * number
        stream.append(_frame(lsn, b"B" + struct.pack(">QqI", lsn + 100, time_us, 800 + number)))
        stream.append(insert(number))
        stream.append(_frame(lsn + 150, b"C\x00" + struct.pack(">QQq", lsn + 100, lsn + 150, time_us)))
    encoder = _encoder(encoding, compiled)

    def call() -> int:
        feed = encoder.feed
        for now, message in enumerate(stream, NOW_NS):
            feed(message, now)
        encoder.take()
        return ROWS

    return best(call)


def snapshot(encoding: Encoding, compiled: bool) -> float:
    """Rows of COPY BINARY."""
    rows = []
    for number in range(ROWS):
        cells = b"".join(struct.pack(">i", len(field)) + field for field in binaries(number))
        rows.append(struct.pack(">H", 10) + cells)
    encoder = _encoder(encoding, compiled)
    encoder.set_snapshot(26_418_752, 827, COMMIT_US)

    def call() -> int:
        copy = encoder.feed_copy
        for row in rows:
            copy(OID, row, SnapshotMarker.TRUE, NOW_NS)
        encoder.take()
        return ROWS

    return best(call)


def with_fastavro() -> float:
    """Dictionaries, fastavro and a record builder: what one would write without thinking about speed."""
    planned = plan(Encoding.AVRO)
    assert planned.key_schema is not None
    assert planned.value_schema is not None
    key_schema = fastavro.parse_schema(json.loads(planned.key_schema))
    value_schema = fastavro.parse_schema(json.loads(planned.value_schema))
    rows = [texts(number) for number in range(ROWS // 4)]

    def write(schema: Any, value: dict[str, Any]) -> bytes:
        sink = io.BytesIO(b"\x00\x00\x00\x00\x01")
        sink.seek(5)
        fastavro.schemaless_writer(sink, schema, value)
        return sink.getvalue()

    def call() -> int:
        records = []
        for number, row in enumerate(rows):
            after = {
                "id": int(row[0]),
                "customer_id": int(row[1]),
                "status": row[2].decode(),
                "note": row[3].decode(),
                "amount": Decimal(row[4].decode()),
                "quantity": int(row[5]),
                "paid": row[6] == b"t",
                "due": number,
                "created_at": row[8].decode(),
                "token": row[9].decode(),
            }
            value = {
                "before": None,
                "after": after,
                "source": _source(number),
                "transaction": None,
                "op": "c",
            }
            value |= {"ts_ms": NOW_NS // 1_000_000, "ts_us": NOW_NS // 1000, "ts_ns": NOW_NS}
            key = write(key_schema, {"id": after["id"]})
            records.append(Record(number, 0, key, write(value_schema, value), ()))
        build(records, 0)
        return len(rows)

    return best(call)


def _source(number: int) -> dict[str, Any]:
    lsn = 26_418_752 + 100 * number
    return {
        "version": "3.6.3.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": COMMIT_US // 1000,
        "snapshot": "false",
        "db": "shop",
        "sequence": json.dumps([None, str(lsn)]),
        "ts_us": COMMIT_US,
        "ts_ns": COMMIT_US * 1000,
        "schema": "public",
        "table": "orders",
        "txId": 827,
        "lsn": lsn,
    }


def run() -> list[dict[str, Any]]:
    """The figures of `make bench`: rows per core-second of whichever encoder runs, against fastavro's."""
    reference = with_fastavro()
    measured = (
        ("envelope_avro", bulk(Encoding.AVRO, COMPILED), 100),
        ("envelope_json", bulk(Encoding.JSON, COMPILED), 75),
        ("envelope_small", small(Encoding.AVRO, COMPILED), 50),
        ("envelope_snapshot", snapshot(Encoding.AVRO, COMPILED), 65),
    )
    return [
        at_least(figure, value, "rows/core-s", target=target, reference=reference)
        for figure, value, target in measured
    ]


def main() -> None:
    """Print all encoders side by side."""
    for name, measure in (("one transaction", bulk), ("one-row transactions", small), ("snapshot", snapshot)):
        for encoding in (Encoding.AVRO, Encoding.JSON):
            for compiled in (True, False) if COMPILED else (False,):
                kind = "compiled" if compiled else "generated"
                print(f"{name:22} {encoding:6} {kind:10} {measure(encoding, compiled):12,.0f} rows/core-s")
    print(f"{'one transaction':22} {'avro':6} {'fastavro':10} {with_fastavro():12,.0f} rows/core-s")


if __name__ == "__main__":
    main()
