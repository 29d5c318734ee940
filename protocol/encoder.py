"""Generates the function that encodes one version of one message.

The function is flat, like the decoder's: adjacent fields of constant size share one `pack`, lengths and the
empty tagged-field byte join them where they can. Records longer than JOIN_BYTES are handed out as they are,
between joined pieces; nothing else is ever large.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from protocol import wire
from protocol.schema import FIXED, ZERO_UUID, Field, Kind, Message, Struct
from protocol.source import Source

JOIN_BYTES: Final = 1024
"""Records up to this many bytes are copied: one more buffer to write costs more than the copy."""


def compile_encoder(message: Message, version: int) -> Callable[[Any], list[Any]]:
    """Make the function object -> list of buffers for this version."""
    return _Encoder(message.struct, version, version in message.flexible).compile()


def _holds_records(of: Struct) -> bool:
    return any(
        f.kind is Kind.RECORDS or (f.struct is not None and _holds_records(f.struct)) for f in of.fields
    )


class _Encoder:
    def __init__(self, root: Struct, version: int, flexible: bool) -> None:
        self._struct = root
        self._version = version
        self._flexible = flexible
        self._title = f"{root.name} v{version}"
        self._source = Source()
        self._source.names.update(
            zero=wire.BYTE[0],
            byte=wire.BYTE,
            varint=wire.varint,
            write_tagged_fields=wire.write_tagged_fields,
            join=b"".join,
            pack=struct.pack,
            ZERO_UUID=ZERO_UUID,
        )
        # Fields of constant size that the code has yet to write: (letter, expression).
        self._run: list[tuple[str, str]] = []

    def compile(self) -> Callable[[Any], list[Any]]:
        source = self._source
        with source.block("def encode(o):"):
            source.line("pieces = []")
            source.line("a = pieces.append")
            records = _holds_records(self._struct)
            if records:
                source.line("buffers = []")
            self._fields(self._struct, "o")
            self._flush()
            if records:
                source.line("if pieces: buffers.append(join(pieces))")
                source.line("return buffers")
            else:
                source.line("return [join(pieces)]")
        encode: Callable[[Any], list[Any]] = source.build("encode", f"encoder of {self._title}")
        return encode

    # Runs of constant size

    def _add(self, letter: str, expression: str) -> None:
        self._run.append((letter, expression))

    def _write(self, run: list[tuple[str, str]]) -> None:
        source = self._source
        if not run:
            return
        letters = "".join(letter for letter, _ in run)
        if run == [("B", "0")]:
            source.line("a(zero)")
        elif letters == "B":
            source.line(f"a(byte[{run[0][1]}])")
        elif letters == "16s":
            source.line(f"a({run[0][1]})")
        else:
            pack = source.constant("pack", letters, lambda: struct.Struct(f">{letters}").pack)
            source.line(f"a({pack}({', '.join(expression for _, expression in run)}))")

    def _flush(self) -> None:
        run, self._run = self._run, []
        self._write(run)

    def _length(self, count: str, prefix: str) -> None:
        """Write a length or count; in flexible versions `count` is already one more than it."""
        if not self._flexible:
            self._add(prefix, count)
            self._flush()
            return
        run, self._run = self._run, []
        source = self._source
        with source.block(f"if {count} < 128:"):
            self._write([*run, ("B", count)])
        with source.block("else:"):
            self._write(run)
            source.line(f"a(varint({count}))")

    # Fields

    def _fields(self, of: Struct, value: str) -> None:
        for field in of.untagged(self._version):
            self._value(field.kind, field, self._version in field.nullable, f"{value}.{field.name}")
        if self._flexible:
            self._tagged_fields(of, value)

    def _value(self, kind: Kind, field: Field, nullable: bool, value: str) -> None:
        if kind is Kind.UUID:
            self._add("16s", f"{value}.bytes")
        elif kind in FIXED:
            self._add(FIXED[kind][0], value)
        elif kind is Kind.ARRAY:
            self._array(field, nullable, value)
        elif kind is Kind.STRUCT:
            self._nested(field, nullable, value)
        else:
            self._blob(kind, nullable, value)

    def _null(self, prefix: str) -> None:
        if self._flexible:
            self._add("B", "0")
        else:
            self._add(prefix, "-1")
        self._flush()

    def _blob(self, kind: Kind, nullable: bool, value: str) -> None:
        source = self._source
        prefix = "h" if kind is Kind.STRING else "i"
        name = source.fresh("s")
        source.line(f"{name} = {value}")
        run = self._run
        if nullable:
            with source.block(f"if {name} is None:"):
                self._run = list(run)
                self._null(prefix)
            self._run = run
            with source.block("else:"):
                self._present_blob(kind, name, prefix)
        else:
            self._present_blob(kind, name, prefix)

    def _present_blob(self, kind: Kind, name: str, prefix: str) -> None:
        source = self._source
        if kind is Kind.STRING:
            source.line(f"{name} = {name}.encode()")
        n = source.fresh("n")
        source.line(f"{n} = len({name}){' + 1' if self._flexible else ''}")
        self._length(n, prefix)
        if kind is not Kind.RECORDS:
            source.line(f"a({name})")
            return
        source.line(f"if {n} <= {JOIN_BYTES + self._flexible}: a({name})")
        with source.block("else:"):
            source.line("if pieces: buffers.append(join(pieces))")
            source.line(f"buffers.append({name})")
            source.line("pieces.clear()")

    def _array(self, field: Field, nullable: bool, value: str) -> None:
        source = self._source
        name = source.fresh("l")
        source.line(f"{name} = {value}")
        run = self._run
        if nullable:
            with source.block(f"if {name} is None:"):
                self._run = list(run)
                self._null("i")
            self._run = run
            with source.block("else:"):
                self._present_array(field, name)
        else:
            self._present_array(field, name)

    def _present_array(self, field: Field, name: str) -> None:
        source = self._source
        element = field.element
        assert element is not None
        n = source.fresh("n")
        source.line(f"{n} = len({name}){' + 1' if self._flexible else ''}")
        self._length(n, "i")
        if element in FIXED and element is not Kind.UUID:
            source.line(f'a(pack(f">{{len({name})}}{FIXED[element][0]}", *{name}))')
            return
        item = source.fresh("o" if element is Kind.STRUCT else "v")
        with source.block(f"for {item} in {name}:"):
            if element is Kind.STRUCT:
                assert field.struct is not None
                self._fields(field.struct, item)
            else:
                self._value(element, field, False, item)
            self._flush()

    def _nested(self, field: Field, nullable: bool, value: str) -> None:
        source = self._source
        assert field.struct is not None
        item = source.fresh("o")
        source.line(f"{item} = {value}")
        if not nullable:
            self._fields(field.struct, item)
            return
        # KIP-893: a byte, -1 for null and 1 otherwise, precedes a struct that may be null.
        run = self._run
        with source.block(f"if {item} is None:"):
            self._run = [*run, ("b", "-1")]
            self._flush()
        with source.block("else:"):
            self._run = [*run, ("b", "1")]
            self._fields(field.struct, item)
            self._flush()

    def _tagged_fields(self, of: Struct, value: str) -> None:
        """Write the tagged fields; nearly always there are none, and then their zero joins what precedes."""
        source = self._source
        tagged = of.tagged(self._version)
        some = " or ".join(
            [
                *(_is_written(field, f"{value}.{field.name}") for field in tagged),
                f"{value}.unknown_tagged_fields",
            ]
        )
        write = source.constant("tagged", ("tagged", of.cls), lambda: self._tagged_writer(of, tagged))
        run, self._run = self._run, []
        with source.block(f"if {some}:"):
            self._write(run)
            source.line(f"a({write}({value}))")
        with source.block("else:"):
            self._write([*run, ("B", "0")])

    def _tagged_writer(self, of: Struct, tagged: list[Field]) -> Callable[[Any], bytes]:
        """Generate the function that writes a struct's tagged fields; it stands apart, being rare."""
        nested = _Encoder(of, self._version, True)
        source = nested._source
        with source.block("def encode(o):"):
            source.line("known = {}")
            for field in tagged:
                value = f"o.{field.name}"
                with source.block(f"if {_is_written(field, value)}:"):
                    source.line("pieces = []")
                    source.line("a = pieces.append")
                    nested._value(field.kind, field, self._version in field.nullable, value)
                    nested._flush()
                    source.line(f"known[{field.tag}] = join(pieces)")
            source.line("return write_tagged_fields(known, o.unknown_tagged_fields)")
        encode: Callable[[Any], bytes] = source.build("encode", f"tagged fields of {self._title}, {of.name}")
        return encode


def _is_written(field: Field, value: str) -> str:
    """The condition under which a tagged field is written: it differs from its default."""
    if field.default is None:
        return f"{value} is not None"
    if field.kind is Kind.ARRAY:
        return value
    if field.kind is Kind.UUID:
        return f"({value} is not ZERO_UUID and {value} != ZERO_UUID)"
    return f"{value} != {field.default!r}"
