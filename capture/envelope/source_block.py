"""The source block and the clock of a value, in pure Python; what lasts longer than an event is kept."""

from __future__ import annotations

from capture.envelope.java_text import json_string
from capture.envelope.layout import SnapshotMarker, ValueLayout
from capture.envelope.value_writer import Write, avro_bytes, varint


class SourceBlock:
    """The parts around an event's LSN, good for a transaction or for snapshot rows of one marker."""

    __slots__ = ("_head", "_layout", "_middle", "_number", "_sequence", "_shows_lsn", "_tail", "valid_for")

    def __init__(self, layout: ValueLayout) -> None:
        self._layout = layout
        self._number: Write = json_number if layout.json else varint
        #: Whatever the owner wants to know about what `renew` was last called for.
        self.valid_for: object = None
        self._head = self._sequence = self._middle = self._tail = b""
        self._shows_lsn = True

    def renew(
        self,
        *,
        marker: SnapshotMarker,
        ts_us: int,
        last_commit_lsn: int | None,
        tx_id: int | None,
        origin: tuple[str, int] | None = None,
    ) -> None:
        """Rebuild the parts. Without `tx_id` there is no LSN either (incremental snapshots)."""
        layout, number = self._layout, self._number
        quote = layout.sequence_quote
        last = b"null" if last_commit_lsn is None else b"%b%d%b" % (quote, last_commit_lsn, quote)
        self._head = layout.source_head + number(ts_us // 1000) + layout.snapshot[marker]
        self._sequence = b"[%b,%b" % (last, quote)
        parts = [layout.ts_us, number(ts_us), layout.ts_ns, number(signed(ts_us * 1000)), layout.names]
        if tx_id is None:
            parts += (layout.tx_id_null, layout.lsn_null)
        else:
            parts += (layout.tx_id, number(tx_id), layout.lsn)
        self._middle = b"".join(parts)
        self._shows_lsn = tx_id is not None
        self._tail = layout.origin_null
        if origin is not None:
            name = json_string(origin[0]).encode() if layout.json else avro_bytes(origin[0].encode())
            end = b"}" if layout.json else b""
            self._tail = b"".join((layout.origin, name, layout.origin_lsn, number(origin[1]), end))

    def write(self, lsn: int) -> bytes:
        """The block of an event at `lsn`."""
        sequence = b"%b%d%b]" % (self._sequence, lsn, self._layout.sequence_quote)
        shown = self._number(signed(lsn)) if self._shows_lsn else b""
        if self._layout.json:
            return b'%b"%b"%b%b%b' % (self._head, sequence, self._middle, shown, self._tail)
        return b"".join((self._head, varint(len(sequence)), sequence, self._middle, shown, self._tail))


class Clock:
    """The numbers of `ts_ms`, `ts_us` and `ts_ns`; events that come together share a reading."""

    def __init__(self) -> None:
        self._readings: dict[bool, tuple[int, bytes]] = {}

    def write(self, layout: ValueLayout, now_ns: int) -> bytes:
        """From `ts_ms` to `ts_ns`."""
        kept = self._readings.get(layout.json)
        if kept is None or kept[0] != now_ns:
            number: Write = json_number if layout.json else varint
            numbers = number(now_ns // 1_000_000), number(now_ns // 1000), number(now_ns)
            text = b"".join((numbers[0], layout.event_ts_us, numbers[1], layout.event_ts_ns, numbers[2]))
            self._readings[layout.json] = kept = now_ns, text
        return kept[1]


def json_number(number: int) -> bytes:
    """An integer in JSON."""
    return b"%d" % number


def signed(number: int) -> int:
    """As a signed 64-bit integer."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
