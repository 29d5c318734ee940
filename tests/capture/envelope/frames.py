"""Builds what Postgres sends: XLogData frames of pgoutput messages, tuples, and rows of COPY BINARY."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

#: Microseconds from 1970 to 2000.
EPOCH_US: Final = 946_684_800_000_000
UNCHANGED: Final = object()


def frame(lsn: int, payload: bytes) -> bytes:
    """An XLogData message."""
    return b"w" + struct.pack(">QQq", lsn, lsn, 0) + payload


def begin(lsn: int, final_lsn: int, commit_us: int, xid: int) -> bytes:
    """Begin; `commit_us` counts from 1970."""
    return frame(lsn, b"B" + struct.pack(">QqI", final_lsn, commit_us - EPOCH_US, xid))


def commit(commit_lsn: int, end_lsn: int, commit_us: int) -> bytes:
    """Commit."""
    return frame(end_lsn, b"C\x00" + struct.pack(">QQq", commit_lsn, end_lsn, commit_us - EPOCH_US))


def row(cells: Sequence[object]) -> bytes:
    """A tuple of text columns: bytes, None or UNCHANGED."""
    out = [struct.pack(">H", len(cells))]
    for cell in cells:
        if cell is None:
            out.append(b"n")
        elif isinstance(cell, bytes):
            out.append(b"t" + struct.pack(">i", len(cell)) + cell)
        else:
            out.append(b"u")
    return b"".join(out)


def insert(lsn: int, oid: int, cells: Sequence[object]) -> bytes:
    """Insert."""
    return frame(lsn, b"I" + struct.pack(">I", oid) + b"N" + row(cells))


def update(
    lsn: int, oid: int, new: Sequence[object], old: Sequence[object] | None = None, kind: bytes = b"O"
) -> bytes:
    """Update, with a key (`K`) or full (`O`) old tuple if `old` is given."""
    before = b"" if old is None else kind + row(old)
    return frame(lsn, b"U" + struct.pack(">I", oid) + before + b"N" + row(new))


def delete(lsn: int, oid: int, old: Sequence[object], kind: bytes = b"O") -> bytes:
    """Delete."""
    return frame(lsn, b"D" + struct.pack(">I", oid) + kind + row(old))


def truncate(lsn: int, *oids: int) -> bytes:
    """Truncate."""
    return frame(lsn, b"T" + struct.pack(">IB", len(oids), 0) + b"".join(struct.pack(">I", o) for o in oids))


def origin(lsn: int, name: bytes, origin_lsn: int) -> bytes:
    """Origin."""
    return frame(lsn, b"O" + struct.pack(">Q", origin_lsn) + name + b"\x00")


def copy_row(fields: Sequence[bytes | None]) -> bytes:
    """One tuple of COPY BINARY."""
    out = [struct.pack(">H", len(fields))]
    for field in fields:
        out.append(struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field)
    return b"".join(out)
