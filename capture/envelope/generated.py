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
from capture.envelope.generated_relation import Relation, encode_record, last_tuple, nullable, text_of
from capture.envelope.layout import SnapshotMarker
from capture.envelope.message_value import MessagePlan, SourcePosition
from capture.envelope.options import EnvelopeOptions
from capture.envelope.plan import NEW_KEY, OLD_KEY, Plan, encode_header
from capture.envelope.source_block import Clock, signed
from capture.envelope.temporal import POSTGRES_EPOCH_US
from capture.envelope.value_writer import varint
from capture.envelope.wire_tuples import NEW, OLD, UNCHANGED, Cell, split_copy
from protocol.records import Codec

FED, COMMITTED, NEEDS_PYTHON = 0, 1, 2

_HEADER: Final = 25
_UINT32: Final = struct.Struct(">I").unpack_from
_BEGIN: Final = struct.Struct(">QqI")
_COMMIT: Final = struct.Struct(">BQQq")


class GeneratedEncoder:
    """See `capture.envelope.Encoder`."""

    compiled: Final = False

    def __init__(self, options: EnvelopeOptions) -> None:
        self.options = options
        self.resume_lsn = 0
        self._last_commit_lsn: int | None = None
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
        self._clock = Clock()
        # What the relations' source blocks were made for; counts up with all that they hold.
        self._generation = 0
        self._handlers = {
            ord("B"): self._begin,
            ord("I"): self._insert,
            ord("U"): self._update,
            ord("D"): self._delete,
            ord("C"): self._commit,
            ord("T"): self._truncate,
            ord("O"): self._set_origin,
        }

    @property
    def last_commit_lsn(self) -> int | None:
        """See `capture.envelope.Encoder`."""
        return self._last_commit_lsn

    @last_commit_lsn.setter
    def last_commit_lsn(self, lsn: int | None) -> None:
        self._last_commit_lsn = lsn
        self._generation += 1

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
        self._commit_us = signed(commit_time + POSTGRES_EPOCH_US)
        self._origin = None
        self._hidden_now = {oid for oid, visible in self._hidden.items() if visible(xid)}
        self._skipping = final_lsn < self.resume_lsn
        self.in_transaction = True
        self._generation += 1
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
        self._generation += 1
        return FED

    def _insert(self, raw: bytes, lsn: int, now_ns: int) -> int:
        relation, position = self._change(raw)
        if relation is None:
            return position
        new = last_tuple(raw, relation.split(raw, position, NEW))
        self._write(relation, "c", self._event(relation, "c", None, new, lsn, now_ns), now_ns)
        return FED

    def _update(self, raw: bytes, lsn: int, now_ns: int) -> int:
        relation, position = self._change(raw)
        if relation is None:
            return position
        old: list[Cell] | None = None
        if raw[position : position + 1] != b"N":
            old, position = relation.split(raw, position, OLD)
        new = last_tuple(raw, relation.split(raw, position, NEW))
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
        # Both halves are encoded before either is written: an error leaves no half of a change.
        deleted = self._event(relation, "d", old, None, lsn, now_ns)
        created = self._event(relation, "c", None, new, lsn, now_ns)
        new_text = plan.key_header([text_of(new[index]) for index in fields])
        old_text = plan.key_header([text_of(old[index]) for index in fields])
        self._write(relation, "d", deleted, now_ns, encode_header(NEW_KEY, new_text))
        self._write(relation, "c", created, now_ns, encode_header(OLD_KEY, old_text))
        return FED

    def _delete(self, raw: bytes, lsn: int, now_ns: int) -> int:
        relation, position = self._change(raw)
        if relation is None:
            return position
        old = last_tuple(raw, relation.split(raw, position, OLD))
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

    # --- records ---

    def _event(
        self,
        relation: Relation,
        op: str,
        old: list[Cell] | None,
        new: list[Cell] | None,
        lsn: int,
        now_ns: int,
    ) -> tuple[bytes | None, bytes]:
        """Key and value of an event; of one that is skipped they do not count."""
        plan, layout = relation.plan, relation.plan.layout
        if op in plan.skipped:
            return None, b""
        value = layout.start
        value += (
            layout.before_null if old is None else layout.before_open + relation.row(old) + layout.row_close
        )
        value += (
            layout.after_null if new is None else layout.after_open + relation.row(new) + layout.row_close
        )
        value += self._source(relation, lsn) + layout.operation[op]
        value += self._clock.write(layout, now_ns) + layout.end
        row = new if new is not None else old
        return None if row is None or relation.key is None else relation.key(row), value

    def _write(
        self, relation: Relation, op: str, event: tuple[bytes | None, bytes], now_ns: int, header: bytes = b""
    ) -> None:
        """Append an event, and the tombstone behind a delete."""
        plan = relation.plan
        if op in plan.skipped:
            return
        key, value = event
        timestamp = now_ns // 1_000_000
        self._append(relation.buffer, timestamp, encode_record(plan, key, value, header))
        if op == "d" and plan.tombstones:
            self._append(relation.buffer, timestamp, encode_record(plan, key, None, header))
        self._counters[plan.topic, op] += 1

    def _source(self, relation: Relation, lsn: int) -> bytes:
        """The source block of a streamed change."""
        source = relation.source
        if source.valid_for != self._generation:
            source.valid_for = self._generation
            source.renew(
                marker=SnapshotMarker.NONE,
                ts_us=self._commit_us,
                last_commit_lsn=self._last_commit_lsn,
                tx_id=self._xid,
                origin=self._origin,
            )
        return source.write(lsn)

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
        last = self._last_commit_lsn
        first = "null" if last is None else f'"{last}"'
        position = SourcePosition(
            ts_us=self._commit_us if transactional else now_ns // 1000,
            sequence=f'[{first},"{lsn}"]',
            tx_id=self._xid if transactional else None,
            lsn=lsn,
            origin=self._origin[0] if self._origin and transactional else None,
            origin_lsn=self._origin[1] if self._origin and transactional else None,
        )
        key, value = plan.record(prefix, content, position, now_ns // 1_000_000)
        buffer = self._buffer(plan.topic, 0)
        self._append(buffer, now_ns // 1_000_000, nullable(key) + nullable(value) + varint(0))
        self._counters[plan.topic, "m"] += 1
        if transactional or self.in_transaction:
            return False
        buffer.commit()
        self.commit_end_lsn = lsn
        return True

    def set_snapshot(self, lsn: int, txid: int, ts_us: int) -> None:
        """What `source` of the following snapshot rows says: consistent point, xid, database clock."""
        self._snapshot = lsn, txid, ts_us
        self._generation += 1

    def feed_copy(
        self, relation: int | Plan, row: bytes | memoryview, marker: SnapshotMarker, now_ns: int
    ) -> None:
        """Take one tuple of COPY BINARY with the fields of `copy_columns`, in that order."""
        target = self._copy_relation(relation)
        plan, layout = target.plan, target.plan.layout
        cells = split_copy(bytes(row), plan.copied, target.width)
        lsn, txid, ts_us = self._snapshot
        source = target.source
        if source.valid_for != (self._generation, marker):
            source.valid_for = self._generation, marker
            source.renew(
                marker=marker,
                ts_us=ts_us,
                last_commit_lsn=self._last_commit_lsn,
                tx_id=None if marker is SnapshotMarker.INCREMENTAL else txid,
            )
        value = b"".join(
            (
                layout.start,
                layout.before_null,
                layout.after_open,
                target.copied_row(cells),
                layout.row_close,
                source.write(lsn),
                layout.operation["r"],
                self._clock.write(layout, now_ns),
                layout.end,
            )
        )
        key = None if target.copied_key is None else target.copied_key(cells)
        self._append(target.buffer, now_ns // 1_000_000, encode_record(plan, key, value, b""), opens=False)
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
        self._generation += 1

    @property
    def counters(self) -> dict[tuple[str, str], int]:
        """Events written so far by (topic, op)."""
        return dict(self._counters)
