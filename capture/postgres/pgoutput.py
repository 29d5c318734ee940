"""The logical replication messages of pgoutput, protocol version 1: bytes in, objects out.

Layouts: PostgreSQL documentation, "Logical Replication Message Formats". All integers are big-endian,
strings end with a zero byte. The encoder reads row changes by itself; what it hands back, and every
message in tests, is read here. Rows stay undecoded: a column is `bytes` or one of the two markers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from capture.lsn import Lsn

# XLogData: 'w', start of the WAL data, current end of WAL on the server, its clock; then the message.
XLOG_DATA_SIZE: Final = 25
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_UINT64: Final = struct.Struct(">Q")
_BEGIN: Final = struct.Struct(">QqI")
_COMMIT: Final = struct.Struct(">BQQq")
_COLUMN_TAIL: Final = struct.Struct(">Ii")
_TRUNCATE: Final = struct.Struct(">iB")
_MESSAGE: Final = struct.Struct(">BQ")


class PgOutputError(ValueError):
    """The bytes are no pgoutput message of protocol version 1."""


class Marker(Enum):
    """What stands for a column value that was not sent."""

    NULL = "null"
    UNCHANGED = "unchanged"  # an externally stored value that the update did not touch


Value = bytes | Marker
Tuple = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction starts; `final_lsn` is where its commit record starts, the time in µs since 2000."""

    final_lsn: Lsn
    commit_time: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction ends; `end_lsn` is the first byte after its commit record."""

    commit_lsn: Lsn
    end_lsn: Lsn
    commit_time: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The transaction came from another node, where it committed at `lsn`."""

    lsn: Lsn
    name: str


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """One column of a Relation message; `identity` tells whether the replica identity holds it."""

    name: str
    type_oid: int
    typmod: int
    identity: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """The published columns of a table, as of its place in the stream."""

    oid: int
    schema: str
    name: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Type:
    """A type that is not built in; for a domain the name is its base type's."""

    oid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row."""

    relation_oid: int
    new: Tuple


@dataclass(frozen=True, slots=True)
class Update:
    """A changed row; `old` holds only the identity's columns when `old_is_key`."""

    relation_oid: int
    old: Tuple | None
    old_is_key: bool
    new: Tuple


@dataclass(frozen=True, slots=True)
class Delete:
    """A removed row; `old` holds only the identity's columns when `old_is_key`."""

    relation_oid: int
    old: Tuple
    old_is_key: bool


@dataclass(frozen=True, slots=True)
class Truncate:
    """Emptied tables, in the order of the statement."""

    relation_oids: tuple[int, ...]
    cascade: bool
    restart_identity: bool


@dataclass(frozen=True, slots=True)
class Message:
    """What pg_logical_emit_message wrote; outside of a transaction if not `transactional`."""

    transactional: bool
    lsn: Lsn
    prefix: str
    content: bytes


PgOutput = Begin | Commit | Origin | Relation | Type | Insert | Update | Delete | Truncate | Message


class _Reader:
    """Walks over one message; every read is checked against the bytes left."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 1

    def fixed(self, layout: struct.Struct) -> tuple[int, ...]:
        at = self._at
        if len(self._data) - at < layout.size:
            raise PgOutputError(f"message {self._data[:1]!r} ends inside a field of {layout.size} bytes")
        self._at = at + layout.size
        return layout.unpack_from(self._data, at)

    def byte(self) -> int:
        return self.raw(1)[0]

    def int16(self) -> int:
        return self.fixed(_INT16)[0]

    def int32(self) -> int:
        return self.fixed(_INT32)[0]

    def oid(self) -> int:
        return self.fixed(_UINT32)[0]

    def lsn(self) -> Lsn:
        return Lsn(self.fixed(_UINT64)[0])

    def raw(self, size: int) -> bytes:
        at = self._at
        if size < 0 or len(self._data) - at < size:
            raise PgOutputError(f"message {self._data[:1]!r} ends inside a value of {size} bytes")
        self._at = at + size
        return self._data[at : at + size]

    def string(self) -> str:
        end = self._data.find(0, self._at)
        if end < 0:
            raise PgOutputError(f"message {self._data[:1]!r} holds a string without its end")
        text = self._data[self._at : end]
        self._at = end + 1
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise PgOutputError(f"message {self._data[:1]!r} holds a string that is not UTF-8") from error

    def count(self, number: int, smallest: int) -> int:
        """A declared number of items, each of at least `smallest` bytes, that the message can hold."""
        if number < 0 or number * smallest > len(self._data) - self._at:
            raise PgOutputError(f"message {self._data[:1]!r} declares {number} items but is too short")
        return number

    def values(self) -> Tuple:
        return tuple(self._value() for _ in range(self.count(self.int16(), 1)))

    def _value(self) -> Value:
        kind = self.byte()
        if kind == 0x6E:  # n
            return Marker.NULL
        if kind == 0x75:  # u
            return Marker.UNCHANGED
        if kind in (0x74, 0x62):  # t: text, b: send format
            return self.raw(self.int32())
        raise PgOutputError(f"unknown kind of column value: {kind:#x}")

    def expect(self, tag: int) -> None:
        found = self.byte()
        if found != tag:
            raise PgOutputError(f"message {self._data[:1]!r} has {found:#x} where {tag:#x} belongs")

    def end(self) -> None:
        if self._at != len(self._data):
            raise PgOutputError(f"message {self._data[:1]!r} has {len(self._data) - self._at} bytes too many")


def parse(data: bytes | memoryview) -> PgOutput:
    """Read one pgoutput message (an XLogData payload); raise PgOutputError on anything malformed."""
    message = bytes(data)
    if not message:
        raise PgOutputError("an empty message")
    read = _READERS.get(message[0])
    if read is None:
        raise PgOutputError(f"no message of protocol version 1 starts with {message[:1]!r}")
    reader = _Reader(message)
    parsed = read(reader)
    reader.end()
    return parsed


def _begin(reader: _Reader) -> Begin:
    final_lsn, commit_time, xid = reader.fixed(_BEGIN)
    return Begin(Lsn(final_lsn), commit_time, xid)


def _commit(reader: _Reader) -> Commit:
    _, commit_lsn, end_lsn, commit_time = reader.fixed(_COMMIT)
    return Commit(Lsn(commit_lsn), Lsn(end_lsn), commit_time)


def _origin(reader: _Reader) -> Origin:
    return Origin(reader.lsn(), reader.string())


def _relation(reader: _Reader) -> Relation:
    oid = reader.oid()
    schema = reader.string() or "pg_catalog"
    name = reader.string()
    identity = chr(reader.byte())
    if identity not in "dnfi":
        raise PgOutputError(f"unknown replica identity {identity!r}")
    number = reader.count(reader.int16(), 10)
    return Relation(oid, schema, name, identity, tuple(_column(reader) for _ in range(number)))


def _column(reader: _Reader) -> RelationColumn:
    flags = reader.byte()
    name = reader.string()
    type_oid, typmod = reader.fixed(_COLUMN_TAIL)
    return RelationColumn(name, type_oid, typmod, bool(flags & 1))


def _type(reader: _Reader) -> Type:
    return Type(reader.oid(), reader.string() or "pg_catalog", reader.string())


def _insert(reader: _Reader) -> Insert:
    oid = reader.oid()
    reader.expect(0x4E)
    return Insert(oid, reader.values())


def _update(reader: _Reader) -> Update:
    oid = reader.oid()
    tag = reader.byte()
    if tag == 0x4E:  # N
        return Update(oid, None, False, reader.values())
    if tag not in (0x4B, 0x4F):  # K, O
        raise PgOutputError(f"an update has {tag:#x} where its old row belongs")
    old = reader.values()
    reader.expect(0x4E)
    return Update(oid, old, tag == 0x4B, reader.values())


def _delete(reader: _Reader) -> Delete:
    oid = reader.oid()
    tag = reader.byte()
    if tag not in (0x4B, 0x4F):
        raise PgOutputError(f"a delete has {tag:#x} where its old row belongs")
    return Delete(oid, reader.values(), tag == 0x4B)


def _truncate(reader: _Reader) -> Truncate:
    number, flags = reader.fixed(_TRUNCATE)
    oids = tuple(reader.oid() for _ in range(reader.count(number, 4)))
    return Truncate(oids, bool(flags & 1), bool(flags & 2))


def _message(reader: _Reader) -> Message:
    flags, lsn = reader.fixed(_MESSAGE)
    prefix = reader.string()
    return Message(bool(flags & 1), Lsn(lsn), prefix, reader.raw(reader.int32()))


_READERS: Final[dict[int, Callable[[_Reader], PgOutput]]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("R"): _relation,
    ord("Y"): _type,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _message,
}
