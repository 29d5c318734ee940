"""Generates the function that decodes one version of one message.

The function is flat: structs and arrays are inlined, adjacent fields of constant size share an `unpack_from`,
and the length byte of what follows joins them. Invariants of the generated code, on which safety rests:

- `p` is the next byte to read and `end` the length of `data`; `p <= end` after every declared length.
- Reading constant sizes past `end` raises struct.error or IndexError, turned into DecodeError at the end.
- Slices would be cut short in silence, so each is preceded by a comparison of its stop with `end`.
- The declared count of an array times the smallest size of its elements must fit into the bytes left, before
  a list is made.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from protocol import wire
from protocol.errors import DecodeError
from protocol.schema import FIXED, Field, Kind, Message, Struct
from protocol.source import Source

_FAILURES: Final = (IndexError, struct.error)


def compile_decoder(message: Message, version: int) -> Callable[[bytes, int], Any]:
    """Make the function (data, offset) -> object for this version."""
    return _Decoder(message.struct, version, version in message.flexible).compile()


def minimal_size(kind: Kind, of: Struct | None, nullable: bool, version: int, flexible: bool) -> int:
    """The fewest bytes that a value of this kind takes on the wire."""
    if kind in FIXED:
        return FIXED[kind][1]
    if kind is Kind.STRUCT:
        assert of is not None
        if nullable:
            return 1
        fields = of.untagged(version)
        sizes = (minimal_size(f.kind, f.struct, version in f.nullable, version, flexible) for f in fields)
        return sum(sizes) + flexible
    if flexible:
        return 1
    return 2 if kind is Kind.STRING else 4


class _Decoder:
    def __init__(self, root: Struct, version: int, flexible: bool) -> None:
        self._struct = root
        self._version = version
        self._flexible = flexible
        self._title = f"{root.name} v{version}"
        self._source = Source()
        self._source.names.update(
            new=object.__new__,
            uuids=wire.uuids,
            new_uuid=wire.new_uuid,
            varint=wire.rest_of_varint,
            read_tagged_fields=wire.read_tagged_fields,
            DecodeError=DecodeError,
            failures=_FAILURES,
            view=memoryview,
            unpack_from=struct.unpack_from,
        )
        # Fields of constant size that the code has yet to read: (letter, what to assign to).
        self._run: list[tuple[str, str]] = []
        self._after_run: list[tuple[str, str]] = []

    def compile(self) -> Callable[[bytes, int], Any]:
        source = self._source
        with source.block("def decode(data, p):"):
            source.line("end = len(data)")
            with source.block("try:"):
                target = self._new(self._struct)
                self._fields(self._struct, target, self._title)
                self._flush()
                source.line(f"return {target}")
            with source.block("except failures as error:"):
                text = f"{self._title} is cut off: {{end}} bytes"
                source.line(f"raise DecodeError(f{text!r}) from error")
            with source.block("except UnicodeDecodeError as error:"):
                text = f"{self._title} holds a string that is not UTF-8"
                source.line(f"raise DecodeError({text!r}) from error")
        decode: Callable[[bytes, int], Any] = source.build("decode", f"decoder of {self._title}")
        return decode

    # Runs of constant size

    def _add(self, letter: str, target: str) -> None:
        self._run.append((letter, target))

    def _flush(self) -> None:
        run, self._run = self._run, []
        source = self._source
        if run:
            letters = "".join(letter for letter, _ in run)
            targets = ", ".join(target for _, target in run)
            size = struct.calcsize(f">{letters}")
            if letters == "B":
                source.line(f"{targets} = data[p]")
            elif letters == "?":
                source.line(f"{targets} = data[p] != 0")
            elif letters == "16s":
                source.line(f"{targets} = data[p : p + 16]")
                source.line("if p + 16 > end: raise IndexError")
            else:
                unpack = source.constant("unpack", letters, lambda: struct.Struct(f">{letters}").unpack_from)
                source.line(f"{targets}{',' if len(run) == 1 else ''} = {unpack}(data, p)")
            source.line(f"p += {size}")
        after, self._after_run = self._after_run, []
        for raw, target in after:
            source.line(f"try: {target} = uuids[{raw}]")
            source.line(f"except KeyError: {target} = new_uuid({raw})")

    def _length(self, nullable: bool, prefix: str, where: str) -> str:
        """Read a length or count into a variable, whose name is returned; -1 in it stands for null."""
        source = self._source
        name = source.fresh("n")
        if self._flexible:
            self._add("B", name)
            self._flush()
            source.line(f"if {name} > 127: {name}, p = varint(data, p, {name})")
            source.line(f"{name} -= 1")
        else:
            self._add(prefix, name)
            self._flush()
        if not nullable:
            with source.block(f"if {name} < 0:"):
                text = f"{where} must not be null, or has a negative length"
                source.line(f"raise DecodeError({text!r})")
        elif not self._flexible:
            with source.block(f"if {name} < -1:"):
                text = f"{where} has a negative length"
                source.line(f"raise DecodeError({text!r})")
        return name

    # Fields

    def _new(self, of: Struct) -> str:
        target = self._source.fresh("o")
        cls = self._source.constant(of.name, of.cls, lambda: of.cls)
        self._source.line(f"{target} = new({cls})")
        return target

    def _fields(self, of: Struct, target: str, where: str) -> None:
        present = of.untagged(self._version)
        for field in of.fields:
            # An absent scalar keeps the default that lies on the class; a list must be this object's own.
            if field not in present and isinstance(field.default, list):
                self._source.line(f"{target}.{field.name} = []")
        for field in present:
            self._field(field, f"{target}.{field.name}", f"{where}.{field.name}")
        if self._flexible:
            self._tagged_fields(of, target, where)

    def _field(self, field: Field, target: str, where: str) -> None:
        nullable = self._version in field.nullable
        self._value(field.kind, field, nullable, target, where)

    def _value(self, kind: Kind, field: Field, nullable: bool, target: str, where: str) -> None:
        if kind is Kind.UUID:
            raw = self._source.fresh("u")
            self._add("16s", raw)
            self._after_run.append((raw, target))
        elif kind in FIXED:
            self._add(FIXED[kind][0], target)
        elif kind is Kind.ARRAY:
            self._array(field, nullable, target, where)
        elif kind is Kind.STRUCT:
            self._nested(field, nullable, target, where)
        else:
            self._slice(kind, nullable, target, where)

    def _slice(self, kind: Kind, nullable: bool, target: str, where: str) -> None:
        source = self._source
        n = self._length(nullable, "h" if kind is Kind.STRING else "i", where)
        q = source.fresh("q")
        source.line(f"{q} = p + {n}")
        with source.block(f"if {q} > end:"):
            text = f"{where} runs past the end of the message"
            source.line(f"raise DecodeError({text!r})")
        value = {
            Kind.STRING: f"data[p:{q}].decode()",
            Kind.BYTES: f"data[p:{q}]",
            Kind.RECORDS: f"view(data)[p:{q}]",
        }[kind]
        if nullable:
            source.line(f"if {n} < 0: {target} = None")
            with source.block("else:"):
                source.line(f"{target} = {value}")
                source.line(f"p = {q}")
        else:
            source.line(f"{target} = {value}")
            source.line(f"p = {q}")

    def _array(self, field: Field, nullable: bool, target: str, where: str) -> None:
        source = self._source
        element = field.element
        assert element is not None
        n = self._length(nullable, "i", where)
        size = minimal_size(element, field.struct, False, self._version, self._flexible)
        with source.block(f"if {n} * {size} > end - p:"):
            text = f"{where} declares {{{n}}} elements in {{end - p}} bytes"
            source.line(f"raise DecodeError(f{text!r})")
        if not nullable:
            self._elements(field, element, n, target, where)
            return
        source.line(f"if {n} < 0: {target} = None")
        with source.block("else:"):
            self._elements(field, element, n, target, where)

    def _elements(self, field: Field, element: Kind, n: str, target: str, where: str) -> None:
        source = self._source
        if element in FIXED and element is not Kind.UUID:
            letter, size = FIXED[element]
            source.line(f'{target} = list(unpack_from(f">{{{n}}}{letter}", data, p))')
            source.line(f"p += {n} * {size}")
            return
        values = source.fresh("l")
        source.line(f"{target} = {values} = []")
        with source.block(f"for _ in range({n}):"):
            if element is Kind.STRUCT:
                assert field.struct is not None
                item = self._new(field.struct)
                source.line(f"{values}.append({item})")
                self._fields(field.struct, item, f"{where}[]")
                self._flush()
            else:
                item = source.fresh("v")
                self._value(element, field, False, item, f"{where}[]")
                self._flush()
                source.line(f"{values}.append({item})")

    def _nested(self, field: Field, nullable: bool, target: str, where: str) -> None:
        source = self._source
        assert field.struct is not None
        self._flush()
        if not nullable:
            item = self._new(field.struct)
            source.line(f"{target} = {item}")
            self._fields(field.struct, item, where)
            return
        # KIP-893: a byte, negative for null, precedes a struct that may be null.
        source.line("p += 1")
        source.line(f"if data[p - 1] > 127: {target} = None")
        with source.block("else:"):
            item = self._new(field.struct)
            source.line(f"{target} = {item}")
            self._fields(field.struct, item, where)
            self._flush()

    def _tagged_fields(self, of: Struct, target: str, where: str) -> None:
        source = self._source
        key = ("tagged", of.cls)
        known = source.constant(
            "known", key, lambda: {f.tag: self._tagged(f, of) for f in of.tagged(self._version)}
        )
        count = source.fresh("n")
        self._add("B", count)
        self._flush()
        with source.block(f"if {count}:"):
            source.line(f"p = read_tagged_fields({target}, {known}, {where!r}, data, p, end, {count})")

    def _tagged(self, field: Field, of: Struct) -> tuple[str, wire.TaggedDecoder]:
        """Generate the reader of one tagged field; being rare, it stands apart from the flat function."""
        nested = _Decoder(of, self._version, True)
        source = nested._source
        with source.block("def decode(data, p, end):"):
            nested._field(field, "value", f"{self._title}: {of.name}.{field.name}")
            nested._flush()
            source.line("return value, p")
        decode: wire.TaggedDecoder = source.build(
            "decode", f"decoder of {self._title}, {of.name}.{field.name}"
        )
        return field.name, decode
