"""Generates, per plan, the Python functions that turn a row's columns into key and row bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from capture.envelope.binary_text import RENDER
from capture.envelope.errors import MalformedMessage
from capture.envelope.plan import FieldPlan, StructPlan
from capture.envelope.quick_columns import EncodeCell, quick_encode
from capture.envelope.wire_tuples import UNCHANGED, Cell

Encode: TypeAlias = Callable[[Sequence[Cell]], bytes]


def encode_function(plan: StructPlan, binary: frozenset[int] = frozenset()) -> Encode:
    """A function from the columns of a row to the bytes of `plan`; columns in `binary` are in send format."""
    names: dict[str, Any] = {"UNCHANGED": UNCHANGED}
    lines = ["def encode(cells):"]
    parts: list[str] = []
    for number, field in enumerate(plan.fields):
        encode = quick_encode(field, plan)
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
