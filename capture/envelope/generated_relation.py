"""A relation of the stream in pure Python: its plan's generated functions, and the records they go into."""

from __future__ import annotations

from collections.abc import Sequence

from capture.envelope.batches import TopicBuffer
from capture.envelope.errors import MalformedMessage
from capture.envelope.plan import Plan
from capture.envelope.row_code import encode_function
from capture.envelope.source_block import SourceBlock
from capture.envelope.value_writer import varint
from capture.envelope.wire_tuples import Cell, split_tuple


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
        self.source = SourceBlock(plan.layout)

    def split(self, raw: bytes, position: int, kinds: bytes) -> tuple[list[Cell], int]:
        """The columns of a tuple, and where it ends."""
        return split_tuple(raw, position, kinds, self.column_map, self.width, self.plan.table.qualified_name)


def last_tuple(raw: bytes, split: tuple[list[Cell], int]) -> list[Cell]:
    """The cells of a tuple that must be the message's last."""
    if split[1] != len(raw):
        raise MalformedMessage("bytes follow the last tuple of a change")
    return split[0]


def nullable(data: bytes | None) -> bytes:
    """A record's key or value: its length and itself, or the length -1."""
    return b"\x01" if data is None else varint(len(data)) + data


def text_of(cell: Cell) -> bytes | None:
    """The column's bytes, None where there are none."""
    return cell if isinstance(cell, bytes) else None


def encode_record(plan: Plan, key: bytes | None, value: bytes | None, header: bytes) -> bytes:
    """A record from the key on."""
    count = varint(plan.header_count + (1 if header else 0))
    return b"".join((nullable(key), nullable(value), count, header, plan.headers))
