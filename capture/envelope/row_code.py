"""Generates, per plan, the Python functions that turn a row's column texts into key and row bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from capture.envelope.binary_text import RENDER
from capture.envelope.column_types import Op
from capture.envelope.errors import MalformedMessage
from capture.envelope.java_text import json_bytes
from capture.envelope.plan import FieldPlan, StructPlan
from capture.envelope.value_writer import varint
from capture.envelope.wire_tuples import UNCHANGED, Cell

EncodeCell: TypeAlias = Callable[[bytes], bytes | None]
Encode: TypeAlias = Callable[[Sequence[Cell]], bytes]

_LENGTHS: Final = [varint(n) for n in range(1024)]
_IS_INTEGER: Final = re.compile(rb"-?[1-9]\d{0,8}|0", re.ASCII).fullmatch


def _avro_text(text: bytes) -> bytes:
    if not text.isascii():
        text = text.decode("utf-8", "replace").encode()
    size = len(text)
    return (_LENGTHS[size] if size < 1024 else varint(size)) + text


def _fast(field: FieldPlan, json: bool) -> EncodeCell:
    """A quicker function than `field.encode` where there is one."""
    match field.op:
        case Op.STRING | Op.JSONB | Op.UUID:
            return json_bytes if json else _avro_text
        case Op.BOOLEAN:
            general, true, false = field.encode, field.write(True), field.write(False)
            return lambda text: true if text == b"t" else false if text == b"f" else general(text)
        case Op.INT32 | Op.INT64 | Op.OID:
            general = field.encode
            if json:
                return lambda text: text if _IS_INTEGER(text) else general(text)
            return lambda text: varint(int(text)) if _IS_INTEGER(text) else general(text)
        case _:
            return field.encode


def encode_function(plan: StructPlan, binary: frozenset[int] = frozenset()) -> Encode:
    """A function from the columns of a row to the bytes of `plan`; columns in `binary` are in send format."""
    names: dict[str, Any] = {"UNCHANGED": UNCHANGED}
    lines = ["def encode(cells):"]
    parts: list[str] = []
    for number, field in enumerate(plan.fields):
        encode = _fast(field, plan.json)
        if field.column in binary:
            encode = from_binary(field, encode)
        names |= {f"f{number}": encode, f"p{number}": field.prefix, f"n{number}": field.null}
        names[f"u{number}"] = field.unavailable
        lines += [
            f"    c{number} = cells[{field.column}]",
            f"    if c{number} is None: c{number} = n{number}",
            f"    elif c{number} is UNCHANGED: c{number} = u{number}",
            "    else:",
            f"        c{number} = f{number}(c{number})",
            f"        c{number} = n{number} if c{number} is None else p{number} + c{number}"
            if field.prefix
            else f"        if c{number} is None: c{number} = n{number}",
        ]
        parts.append(f"c{number}")
    names |= {"start": plan.open, "end": plan.close}
    lines.append(f"    return b''.join((start, {''.join(part + ', ' for part in parts)}end))")
    exec(compile("\n".join(lines), "<row encoder>", "exec"), names)
    function: Encode = names["encode"]
    return function


def from_binary(field: FieldPlan, encode: EncodeCell) -> EncodeCell:
    """`encode` for values in send format: by way of the text that the stream would have carried."""
    render = RENDER.get(field.op)
    if render is None:
        return encode

    def encode_binary(raw: bytes) -> bytes | None:
        try:
            text = render(raw)
        except MalformedMessage as error:
            raise MalformedMessage(f"{field.owner}, column {field.name}: {error}") from error
        return encode(text)

    return encode_binary
