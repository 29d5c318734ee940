"""Tuples of pgoutput and of COPY BINARY, split into the columns of a plan (debezium/10 sections 4 and 7)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, TypeAlias

from capture.envelope.errors import MalformedMessage


class Unchanged:
    """The kind of a column that was not sent because its TOAST value did not change."""


UNCHANGED: Final = Unchanged()
#: A column: its bytes, None for NULL (or not sent), or unchanged TOAST.
Cell: TypeAlias = "bytes | Unchanged | None"

NEW: Final = b"N"
OLD: Final = b"KO"
_TEXT, _BINARY = ord("t"), ord("b")
_WITHOUT_BYTES: Final = {ord("n"): None, ord("u"): UNCHANGED}
_UINT16: Final = struct.Struct(">H").unpack_from
_INT32: Final = struct.Struct(">i").unpack_from


def split_tuple(
    raw: bytes, position: int, kinds: bytes, column_map: Sequence[int], width: int, owner: str
) -> tuple[list[Cell], int]:
    """The columns of the tuple at `position`, which must be of one of `kinds`, and where it ends.

    Message column i goes to place `column_map[i]` of `width` places, or nowhere for -1.
    """
    size = len(raw)
    if position + 3 > size or raw[position] not in kinds:
        raise MalformedMessage(f"a change has no {' or '.join(map(chr, kinds))} tuple where one belongs")
    count = _UINT16(raw, position + 1)[0]
    if count != len(column_map):
        raise MalformedMessage(
            f"a tuple of {owner} has {count} columns, its Relation message had {len(column_map)}"
        )
    position += 3
    cells: list[Cell] = [None] * (width + 1)  # the last place takes what goes nowhere
    for index in column_map:
        if position >= size:
            raise MalformedMessage("a tuple ends before its last column")
        kind = raw[position]
        if kind == _TEXT:
            start = position + 5
            position = start + int.from_bytes(raw[position + 1 : start], "big")
            if position > size:
                where = "inside a column's length" if start > size else "before the end of a column"
                raise MalformedMessage(f"a tuple ends {where}")
            cells[index] = raw[start:position]
        elif kind in _WITHOUT_BYTES:
            cells[index] = _WITHOUT_BYTES[kind]
            position += 1
        else:
            what = "binary" if kind == _BINARY else f"of unknown kind {kind}"
            raise MalformedMessage(f"a tuple has a column {what}; the stream is asked for text")
    return cells, position


def split_copy(raw: bytes, copied: Sequence[int], width: int) -> list[Cell]:
    """The fields of a row of COPY BINARY; field i goes to place `copied[i]` of `width` places."""
    if len(raw) < 2 or _UINT16(raw)[0] != len(copied):
        raise MalformedMessage(f"a row of COPY has not the {len(copied)} fields it was asked for")
    position, size = 2, len(raw)
    cells: list[Cell] = [None] * (width + 1)
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
