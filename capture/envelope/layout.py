"""The constant bytes of a value around its rows: what both encoders copy between the parts that change.

A value is: start, before, after, source_head, ts_ms, snapshot, sequence, then labelled numbers up to `op` and
the three clock readings. In Avro a label is a union's branch or nothing, in JSON the member's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from capture.envelope.envelope_schema import CONNECTOR
from capture.envelope.java_text import json_string
from capture.envelope.options import EnvelopeOptions
from capture.envelope.table import Table
from capture.envelope.value_writer import avro_bytes


class SnapshotMarker(StrEnum):
    """`source.snapshot`; NONE is streaming."""

    FIRST = "first"
    FIRST_IN_DATA_COLLECTION = "first_in_data_collection"
    TRUE = "true"
    LAST_IN_DATA_COLLECTION = "last_in_data_collection"
    LAST = "last"
    INCREMENTAL = "incremental"
    NONE = "false"


#: Create, read, update, delete, truncate; the compiled encoder counts on the order.
OPERATIONS: Final = "crudt"
#: The field every branch index of an optional value leads with in Avro.
_PRESENT: Final = b"\x02"
_NULL: Final = b"\x00"


@dataclass(frozen=True, slots=True)
class ValueLayout:
    """Constant pieces in the order they are written. `sequence_quote` stands around an LSN in `sequence`."""

    json: bool
    start: bytes
    before_null: bytes
    before_open: bytes
    after_null: bytes
    after_open: bytes
    row_close: bytes
    source_head: bytes
    snapshot: Mapping[SnapshotMarker, bytes]
    sequence_quote: bytes
    ts_us: bytes
    ts_ns: bytes
    names: bytes
    tx_id: bytes
    tx_id_null: bytes
    lsn: bytes
    lsn_null: bytes
    origin_null: bytes
    origin: bytes
    origin_lsn: bytes
    operation: Mapping[str, bytes]
    event_ts_us: bytes
    event_ts_ns: bytes
    end: bytes


def avro_layout(start: bytes, table: Table, options: EnvelopeOptions) -> ValueLayout:
    """The pieces of an Avro value; `start` is the magic byte and the schema id."""
    head = [options.source_version, CONNECTOR, options.topic_prefix]
    database = avro_bytes(options.database.encode()) + _PRESENT
    streaming = b"\x00" + avro_bytes(b"false")
    if not options.value.replace_null_with_default:
        streaming = b"\x02"  # the second branch of [T, "null"]
    snapshot = {marker: b"\x00" + avro_bytes(marker.encode()) + database for marker in SnapshotMarker}
    snapshot[SnapshotMarker.NONE] = streaming + database
    return ValueLayout(
        json=False,
        start=start,
        before_null=_NULL,
        before_open=_PRESENT,
        after_null=_NULL,
        after_open=_PRESENT,
        row_close=b"",
        source_head=b"".join(avro_bytes(text.encode()) for text in head),
        snapshot=snapshot,
        sequence_quote=b'"',
        ts_us=_PRESENT,
        ts_ns=_PRESENT,
        names=avro_bytes(table.schema.encode()) + avro_bytes(table.name.encode()),
        tx_id=_PRESENT,
        tx_id_null=_NULL,
        lsn=_PRESENT,
        lsn_null=_NULL,
        origin_null=_NULL * 3,
        origin=_NULL + _PRESENT,
        origin_lsn=_PRESENT,
        operation={op: _NULL + avro_bytes(op.encode()) + _PRESENT for op in OPERATIONS},
        event_ts_us=_PRESENT,
        event_ts_ns=_PRESENT,
        end=b"",
    )


def json_layout(prefix: bytes, suffix: bytes, table: Table, options: EnvelopeOptions) -> ValueLayout:
    """The pieces of a JSON value between the schema's `prefix` and `suffix` (empty without schemas)."""
    text = {
        name: json_string(value).encode()
        for name, value in (
            ("version", options.source_version),
            ("name", options.topic_prefix),
            ("db", options.database),
            ("schema", table.schema),
            ("table", table.name),
        )
    }
    database = b',"db":%b,"sequence":' % text["db"]
    snapshot = {marker: b',"snapshot":"%b"' % marker.encode() + database for marker in SnapshotMarker}
    if not options.value.replace_null_with_default:
        snapshot[SnapshotMarker.NONE] = b',"snapshot":null' + database
    return ValueLayout(
        json=True,
        start=prefix,
        before_null=b'{"before":null',
        before_open=b'{"before":{',
        after_null=b',"after":null',
        after_open=b',"after":{',
        row_close=b"}",
        source_head=b',"source":{"version":%b,"connector":"%b","name":%b,"ts_ms":'
        % (text["version"], CONNECTOR.encode(), text["name"]),
        snapshot=snapshot,
        sequence_quote=b'\\"',
        ts_us=b',"ts_us":',
        ts_ns=b',"ts_ns":',
        names=b',"schema":%b,"table":%b' % (text["schema"], text["table"]),
        tx_id=b',"txId":',
        tx_id_null=b',"txId":null',
        lsn=b',"lsn":',
        lsn_null=b',"lsn":null',
        origin_null=b',"xmin":null,"origin":null,"origin_lsn":null}',
        origin=b',"xmin":null,"origin":',
        origin_lsn=b',"origin_lsn":',
        operation={op: b',"transaction":null,"op":"%b","ts_ms":' % op.encode() for op in OPERATIONS},
        event_ts_us=b',"ts_us":',
        event_ts_ns=b',"ts_ns":',
        end=b"}" + suffix,
    )
