"""The encoder in pure Python, with row functions generated per plan: the oracle of the compiled one, and what
runs where there is no compiler.

It reads the CopyData payloads of a pgoutput stream (protocol version 1, text format; debezium/10 section 4)
and holds the transaction: what `take` gives is complete transactions, unless asked for more.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from capture.envelope.batches import Output, TopicBuffer, finish_chunk
from capture.envelope.errors import MalformedMessage
from capture.envelope.java_text import json_string
from capture.envelope.layout import SnapshotMarker, ValueLayout
from capture.envelope.message_value import MessagePlan, SourcePosition
from capture.envelope.options import EnvelopeOptions
from capture.envelope.plan import NEW_KEY, OLD_KEY, Plan, encode_header
from capture.envelope.row_code import UNCHANGED, Cell, encode_function
from capture.envelope.temporal import POSTGRES_EPOCH_US
from capture.envelope.value_writer import avro_bytes, varint
from protocol.records import Codec

FED, COMMITTED, NEEDS_PYTHON = 0, 1, 2

_HEADER: Final = 25
_TUPLE_KINDS: Final = {ord("n"): None, ord("u"): UNCHANGED}
_TEXT, _BINARY = ord("t"), ord("b")
_UINT16: Final = struct.Struct(">H").unpack_from
_INT32: Final = struct.Struct(">i").unpack_from
_UINT32: Final = struct.Struct(">I").unpack_from
_BEGIN: Final = struct.Struct(">QqI")
_COMMIT: Final = struct.Struct(">BQQq")


class Relation:
    """A relation of the stream with its plan's functions."""

    def __init__(self, plan: Plan, column_map: Sequence[int], buffer: TopicBuffer) -> None:
        self.plan = plan
        self.column_map = tuple(column_map)
        self.buffer = buffer
        width = len(plan.table.columns)
        if any(index >= width for index in self.column_map):
            raise ValueError("the column map points behind the plan's columns")
        self.width = width
        self.row = encode_function(plan.row)
        self.key = encode_function(plan.key) if plan.key is not None else None
        binary = frozenset(index for index, flag in zip(plan.copied, plan.copied_binary, strict=True) if flag)
        self.copied_row = encode_function(plan.row, binary)
        self.copied_key = encode_function(plan.key, binary) if plan.key is not None else None
        self.source_names: tuple[int, bytes] = (-1, b"")


class GeneratedEncoder:
    """See `capture.envelope.Encoder`."""

    compiled: Final = False

    def __init__(self, options: EnvelopeOptions) -> None:
        self.options = options
        self.resume_lsn = 0
        self.last_commit_lsn: int | None = None
        self.in_transaction = False
        self.commit_end_lsn = 0
        self.pending_bytes = 0
        self._codec = Codec.parse(options.compression)
        self._relations: dict[int, Relation | None] = {}
        self._buffers: dict[tuple[str, int], TopicBuffer] = {}
        self._counters: Counter[tuple[str, str]] = Counter()
        self._hidden: dict[int, Callable[[int], bool]] = {}
        self._hidden_now: set[int] = set()
        self._skipping = False
        self._xid = 0
        self._commit_us = 0
        self._origin: tuple[str, int] | None = None
        self._snapshot: tuple[int, int, int] = (0, 0, 0)
        self._message_plan: MessagePlan | None = None
        self._handlers = {
            ord("B"): self._begin,
            ord("I"): self._insert,
            ord("U"): self._update,
            ord("D"): self._delete,
            ord("C"): self._commit,
            ord("T"): self._truncate,
            ord("O"): self._set_origin,
        }

    # --- relations ---

    def set_relation(self, relation_oid: int, plan: Plan, column_map: Sequence[int]) -> None:
        """Encode changes of a relation by `plan`; message column i is the plan's column `column_map[i]`."""
        self._relations[relation_oid] = Relation(plan, column_map, self._buffer(plan.topic, plan.partition))

    def ignore_relation(self, relation_oid: int) -> None:
        """Drop changes of a relation that is not captured."""
        self._relations[relation_oid] = None

    def drop_relation(self, relation_oid: int) -> None:
        """Forget a relation: its next change asks for Python."""
        self._relations.pop(relation_oid, None)

    def hide(self, relation_oid: int, visible: Callable[[int], bool]) -> None:
        """Skip changes of transactions that the relation's snapshot already saw; asked once per Begin."""
        self._hidden[relation_oid] = visible

    def unhide(self, relation_oid: int) -> None:
        """Stop hiding."""
        self._hidden.pop(relation_oid, None)

    def set_message_plan(self, plan: MessagePlan | None) -> None:
        """Where logical decoding messages go."""
        self._message_plan = plan

    # --- stream ---

    def feed(self, data: bytes | memoryview, now_ns: int) -> int:
        """Take one CopyData payload that starts with `w`."""
        raw = bytes(data)
        if len(raw) <= _HEADER or raw[0] != ord("w"):
            raise MalformedMessage("an XLogData message is shorter than its header")
        handler = self._handlers.get(raw[_HEADER])
        if handler is None:
            return NEEDS_PYTHON
        return handler(raw, int.from_bytes(raw[1:9], "big"), now_ns)

    def _begin(self, raw: bytes, lsn: int, now_ns: int) -> int:
        if len(raw) != _HEADER + 1 + _BEGIN.size:
            raise MalformedMessage(f"a Begin message has {len(raw) - _HEADER} bytes instead of 21")
        if self.in_transaction:
            raise MalformedMessage("a transaction begins inside another")
        final_lsn, commit_time, xid = _BEGIN.unpack_from(raw, _HEADER + 1)
        self._xid = xid
        self._commit_us = _signed(commit_time + POSTGRES_EPOCH_US)
        self._origin = None
        self._hidden_now = {oid for oid, visible in self._hidden.items() if visible(xid)}
        self._skipping = final_lsn < self.resume_lsn
        self.in_transaction = True
        return FED

    def _commit(self, raw: bytes, lsn: int, now_ns: int) -> int:
        if len(raw) != _HEADER + 1 + _COMMIT.size:
            raise MalformedMessage(f"a Commit message has {len(raw) - _HEADER} bytes instead of 26")
        self._require_transaction("a Commit")
        end_lsn = _COMMIT.unpack_from(raw, _HEADER + 1)[2]
        self.in_transaction = False
        if self._skipping:
            self._skipping = False
            return FED
        self.commit_end_lsn = self.last_commit_lsn = end_lsn
        self._commit_buffers()
        return COMMITTED

    def _set_origin(self, raw: bytes, lsn: int, now_ns: int) -> int:
        self._require_transaction("an Origin message")
        end = raw.find(b"\x00", _HEADER + 9)
        if end != len(raw) - 1:
            raise MalformedMessage("an Origin message is not a position and a name")
        origin_lsn = int.from_bytes(raw[_HEADER + 1 : _HEADER + 9], "big", signed=True)
        self._origin = raw[_HEADER + 9 : end].decode("utf-8", "replace"), origin_lsn
        for relation in self._relations.values():
            if relation is not None:
                relation.source_names = (-1, b"")
        return FED

    def _insert(self, raw: bytes, lsn: int, now_ns: int) -> int:
        relation, position = self._change(raw)
        if relation is None:
            return position
        new = self._tuple(relation, raw, position, b"N", end=True)[0]
        self._write(relation, "c", self._event(relation, "c", None, new, lsn, now_ns), now_ns)
        return FED

    def _update(self, raw: bytes, lsn: int, now_ns: int) -> int:
        relation, position = self._change(raw)
        if relation is None:
            return position
        old: list[Cell] | None = None
        if raw[position : position + 1] != b"N":
            old, position = self._tuple(relation, raw, position, b"KO")
        new, position = self._tuple(relation, raw, position, b"N", end=True)
        if old is None:
            self._write(relation, "u", self._event(relation, "u", None, new, lsn, now_ns), now_ns)
            return FED
        for index, cell in enumerate(new):
            if cell is UNCHANGED and isinstance(old[index], bytes):
                new[index] = old[index]
        if relation.key is None or relation.key(old) == relation.key(new):
            self._write(relation, "u", self._event(relation, "u", old, new, lsn, now_ns), now_ns)
            return FED
        plan = relation.plan
        assert plan.key is not None
        fields = [field.column for field in plan.key.fields]
        old_text = plan.key_header([_text(old[index]) for index in fields])
        new_text = plan.key_header([_text(new[index]) for index in fields])
        # Both halves are encoded before either is written: an error leaves no half of a change.
        deleted = self._event(relation, "d", old, None, lsn, now_ns, encode_header(NEW_KEY, new_text))
        created = self._event(relation, "c", None, new, lsn, now_ns, encode_header(OLD_KEY, old_text))
        self._write(relation, "d", deleted, now_ns)
        self._write(relation, "c", created, now_ns)
        return FED

    def _delete(self, raw: bytes, lsn: int, now_ns: int) -> int:
        relation, position = self._change(raw)
        if relation is None:
            return position
        old = self._tuple(relation, raw, position, b"KO", end=True)[0]
        self._write(relation, "d", self._event(relation, "d", old, None, lsn, now_ns), now_ns)
        return FED

    def _truncate(self, raw: bytes, lsn: int, now_ns: int) -> int:
        self._require_transaction("a Truncate")
        start = _HEADER + 6
        if len(raw) < start or len(raw) != start + 4 * _UINT32(raw, _HEADER + 1)[0]:
            raise MalformedMessage("a Truncate message contradicts its count of relations")
        oids = [_UINT32(raw, position)[0] for position in range(start, len(raw), 4)]
        if any(oid not in self._relations for oid in oids):
            return NEEDS_PYTHON
        for oid in oids:
            relation = self._relations[oid]
            if relation is not None and not self._skipping and oid not in self._hidden_now:
                self._write(relation, "t", self._event(relation, "t", None, None, lsn, now_ns), now_ns)
        return FED

    def _require_transaction(self, what: str) -> None:
        if not self.in_transaction:
            raise MalformedMessage(f"{what} came outside a transaction")

    def _change(self, raw: bytes) -> tuple[Relation | None, int]:
        """The relation and where its first tuple starts, or None and what feed is to return."""
        self._require_transaction("a change")
        if len(raw) < _HEADER + 6:
            raise MalformedMessage("a change is shorter than its header")
        oid = _UINT32(raw, _HEADER + 1)[0]
        if self._skipping or oid in self._hidden_now:
            return None, FED
        try:
            relation = self._relations[oid]
        except KeyError:
            return None, NEEDS_PYTHON
        return relation, _HEADER + 5 if relation is not None else FED

    def _tuple(
        self, relation: Relation, raw: bytes, position: int, kinds: bytes, *, end: bool = False
    ) -> tuple[list[Cell], int]:
        """Split a tuple into the plan's columns."""
        size = len(raw)
        if position + 3 > size or raw[position] not in kinds:
            raise MalformedMessage(f"a change has no {' or '.join(map(chr, kinds))} tuple where one belongs")
        column_map = relation.column_map
        count = _UINT16(raw, position + 1)[0]
        if count != len(column_map):
            raise MalformedMessage(
                f"a tuple of {relation.plan.table.qualified_name} has {count} columns, "
                f"its Relation message had {len(column_map)}"
            )
        position += 3
        cells: list[Cell] = [None] * relation.width
        for index in column_map:
            if position >= size:
                raise MalformedMessage("a tuple ends before its last column")
            kind = raw[position]
            position += 1
            if kind == _TEXT:
                if position + 4 > size:
                    raise MalformedMessage("a tuple ends inside a column's length")
                length = _INT32(raw, position)[0]
                position += 4
                if length < 0 or length > size - position:
                    raise MalformedMessage("a column runs past the end of its message")
                if index >= 0:
                    cells[index] = raw[position : position + length]
                position += length
            elif kind in _TUPLE_KINDS:
                if index >= 0:
                    cells[index] = _TUPLE_KINDS[kind]
            else:
                what = "binary" if kind == _BINARY else f"of unknown kind {kind}"
                raise MalformedMessage(f"a tuple has a column {what}; the stream is asked for text")
        if end and position != size:
            raise MalformedMessage("bytes follow the last tuple of a change")
        return cells, position

    # --- records ---

    def _event(
        self,
        relation: Relation,
        op: str,
        old: list[Cell] | None,
        new: list[Cell] | None,
        lsn: int,
        now_ns: int,
        header: bytes = b"",
    ) -> list[bytes]:
        """Encode one event: its record from the key on, and the tombstone's behind a delete."""
        plan, layout = relation.plan, relation.plan.layout
        if op in plan.skipped:
            return []
        value = layout.start
        value += (
            layout.before_null if old is None else layout.before_open + relation.row(old) + layout.row_close
        )
        value += (
            layout.after_null if new is None else layout.after_open + relation.row(new) + layout.row_close
        )
        value += self._source(relation, lsn) + self._clock(layout, op, now_ns)
        row = new if new is not None else old
        key = None if row is None or relation.key is None else relation.key(row)
        records = [_record(plan, key, value, header)]
        if op == "d" and plan.tombstones:
            records.append(_record(plan, key, None, header))
        return records

    def _write(self, relation: Relation, op: str, records: list[bytes], now_ns: int) -> None:
        for tail in records:
            self._append(relation.buffer, now_ns // 1_000_000, tail)
        if records:
            self._counters[relation.plan.topic, op] += 1

    def _source(self, relation: Relation, lsn: int) -> bytes:
        """The source block of a streamed change."""
        layout = relation.plan.layout
        number = _json_number if layout.json else varint
        position = b"".join(
            (
                self._position(layout, SnapshotMarker.NONE, self._commit_us, lsn),
                layout.names,
                layout.tx_id,
                number(self._xid),
                layout.lsn,
                number(_signed(lsn)),
            )
        )
        if self._origin is None:
            return position + layout.origin_null
        name, origin_lsn = self._origin
        text = json_string(name).encode() if layout.json else avro_bytes(name.encode())
        end = b"}" if layout.json else b""
        return b"".join((position, layout.origin, text, layout.origin_lsn, number(origin_lsn), end))

    def _position(self, layout: ValueLayout, marker: SnapshotMarker, ts_us: int, lsn: int) -> bytes:
        """The source block up to `ts_ns`."""
        number = _json_number if layout.json else varint
        sequence = self._sequence(layout.sequence_quote, lsn)
        return b"".join(
            (
                layout.source_head,
                number(ts_us // 1000),
                layout.snapshot[marker],
                b'"%b"' % sequence if layout.json else avro_bytes(sequence),
                layout.ts_us,
                number(ts_us),
                layout.ts_ns,
                number(_signed(ts_us * 1000)),
            )
        )

    def _sequence(self, quote: bytes, lsn: int) -> bytes:
        last = self.last_commit_lsn
        first = b"null" if last is None else b"%b%d%b" % (quote, last, quote)
        return b"[%b,%b%d%b]" % (first, quote, lsn, quote)

    def _clock(self, layout: ValueLayout, op: str, now_ns: int) -> bytes:
        """From `transaction` to the end of the value."""
        number = _json_number if layout.json else varint
        return b"".join(
            (
                layout.operation[op],
                number(now_ns // 1_000_000),
                layout.event_ts_us,
                number(now_ns // 1000),
                layout.event_ts_ns,
                number(now_ns),
                layout.end,
            )
        )

    def _append(self, buffer: TopicBuffer, timestamp: int, tail: bytes, *, opens: bool = True) -> None:
        self.pending_bytes += buffer.append(timestamp, tail)
        if opens:
            buffer.open = True

    def _buffer(self, topic: str, partition: int) -> TopicBuffer:
        key = topic, partition
        if key not in self._buffers:
            self._buffers[key] = TopicBuffer(topic, partition, self.options.batch_bytes)
        return self._buffers[key]

    def _commit_buffers(self) -> None:
        for buffer in self._buffers.values():
            if buffer.open:
                buffer.commit()

    # --- messages and snapshot ---

    def emit_message(self, prefix: str, content: bytes, lsn: int, transactional: bool, now_ns: int) -> bool:
        """Write a logical decoding message; true if it was complete at once (non-transactional)."""
        plan = self._message_plan
        if plan is None:
            raise ValueError("emit_message needs set_message_plan first")
        if transactional:
            self._require_transaction("a transactional message")
            if self._skipping:
                return False
        elif lsn <= self.resume_lsn:
            return False
        else:
            self.last_commit_lsn = lsn
        position = SourcePosition(
            ts_us=self._commit_us if transactional else now_ns // 1000,
            sequence=self._sequence(b'"', lsn).decode(),
            tx_id=self._xid if transactional else None,
            lsn=lsn,
            origin=self._origin[0] if self._origin and transactional else None,
            origin_lsn=self._origin[1] if self._origin and transactional else None,
        )
        key, value = plan.record(prefix, content, position, now_ns // 1_000_000)
        buffer = self._buffer(plan.topic, 0)
        self._append(buffer, now_ns // 1_000_000, _nullable(key) + _nullable(value) + varint(0))
        self._counters[plan.topic, "m"] += 1
        if transactional or self.in_transaction:
            return False
        buffer.commit()
        self.commit_end_lsn = lsn
        return True

    def set_snapshot(self, lsn: int, txid: int, ts_us: int) -> None:
        """What `source` of the following snapshot rows says: consistent point, xid, database clock."""
        self._snapshot = lsn, txid, ts_us

    def feed_copy(
        self, relation: int | Plan, row: bytes | memoryview, marker: SnapshotMarker, now_ns: int
    ) -> None:
        """Take one tuple of COPY BINARY with the fields of `copy_columns`, in that order."""
        target = self._copy_relation(relation)
        plan, layout = target.plan, target.plan.layout
        cells = self._copy_cells(target, bytes(row))
        lsn, txid, ts_us = self._snapshot
        number = _json_number if layout.json else varint
        incremental = marker is SnapshotMarker.INCREMENTAL
        value = b"".join(
            (
                layout.start,
                layout.before_null,
                layout.after_open,
                target.copied_row(cells),
                layout.row_close,
                self._position(layout, marker, ts_us, lsn),
                layout.names,
                layout.tx_id_null if incremental else layout.tx_id + number(txid),
                layout.lsn_null if incremental else layout.lsn + number(_signed(lsn)),
                layout.origin_null,
                self._clock(layout, "r", now_ns),
            )
        )
        key = None if target.copied_key is None else target.copied_key(cells)
        self._append(target.buffer, now_ns // 1_000_000, _record(plan, key, value, b""), opens=False)
        if not target.buffer.open:
            target.buffer.commit()
        self._counters[plan.topic, "r"] += 1

    def _copy_relation(self, relation: int | Plan) -> Relation:
        if isinstance(relation, Plan):
            oid = -id(relation)
            if oid not in self._relations:
                self.set_relation(oid, relation, ())
        else:
            oid = relation
        target = self._relations.get(oid)
        if target is None:
            raise ValueError(f"relation {relation} has no plan")
        return target

    def _copy_cells(self, relation: Relation, raw: bytes) -> list[Cell]:
        plan = relation.plan
        copied = plan.copied
        if len(raw) < 2 or _UINT16(raw)[0] != len(copied):
            raise MalformedMessage(f"a row of COPY has not the {len(copied)} fields it was asked for")
        position, size = 2, len(raw)
        cells: list[Cell] = [None] * relation.width
        for index in copied:
            if position + 4 > size:
                raise MalformedMessage("a row of COPY ends before its last field")
            length = _INT32(raw, position)[0]
            position += 4
            if length == -1:
                continue
            if length < 0 or length > size - position:
                raise MalformedMessage("a field of COPY runs past the end of its row")
            cells[index] = raw[position : position + length]
            position += length
        if position != size:
            raise MalformedMessage("bytes follow the last field of a row of COPY")
        return cells

    # --- output ---

    def take(self, *, include_open: bool = False) -> list[Output]:
        """The finished batches of complete transactions (of all records with `include_open`), in order."""
        outputs = []
        for buffer in self._buffers.values():
            for chunk, committed in buffer.take(include_open):
                batch, newest = finish_chunk(chunk, self._codec, self.options.compression_level)
                outputs.append(
                    Output(buffer.topic, buffer.partition, batch, len(chunk.records), committed, newest)
                )
        self.pending_bytes = sum(chunk.size for buffer in self._buffers.values() for chunk in buffer.chunks)
        return outputs

    def discard_open(self) -> None:
        """Forget the open transaction: the connection ended inside it and it will be sent again."""
        for buffer in self._buffers.values():
            if buffer.open:
                self.pending_bytes -= buffer.discard_open()
        self.in_transaction = self._skipping = False
        self._origin = None

    @property
    def counters(self) -> dict[tuple[str, str], int]:
        """Events written so far by (topic, op)."""
        return dict(self._counters)


def _record(plan: Plan, key: bytes | None, value: bytes | None, header: bytes) -> bytes:
    """A record from the key on."""
    count = varint(plan.header_count + (1 if header else 0))
    return b"".join((_nullable(key), _nullable(value), count, header, plan.headers))


def _json_number(number: int) -> bytes:
    return b"%d" % number


def _signed(number: int) -> int:
    """As a signed 64-bit integer."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _nullable(data: bytes | None) -> bytes:
    return b"\x01" if data is None else varint(len(data)) + data


def _text(cell: Cell) -> bytes | None:
    return cell if isinstance(cell, bytes) else None
