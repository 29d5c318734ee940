"""The model of a declared message: which field has which wire type in which versions.

Declarations (protocol.message) are read into this model on first use; the generators of decoders and encoders
(protocol.decoder, protocol.encoder) and the oracle tests work from it alone.
"""

import dataclasses
import types
import typing
from dataclasses import dataclass
from enum import Enum
from typing import Final
from uuid import UUID

OPEN: Final = 32767
"""The last version of a range such as "3+"."""

ZERO_UUID: Final = UUID(int=0)
"""Kafka's "no uuid"."""


UNKNOWN_TAGGED_FIELDS: Final = "unknown_tagged_fields"
"""The attribute of every struct that keeps the tagged fields which its declaration does not name."""


class Kind(Enum):
    """A wire type, by Kafka's own name. Left out: uint16 and float64, which no API served has."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"
    STRUCT = "struct"
    ARRAY = "array"


FIXED: Final = {
    Kind.BOOL: ("?", 1),
    Kind.INT8: ("b", 1),
    Kind.INT16: ("h", 2),
    Kind.INT32: ("i", 4),
    Kind.INT64: ("q", 8),
    Kind.UUID: ("16s", 16),
}
"""Kinds of constant size: their letter for the struct module, and their size in bytes."""

_PLAIN: Final = {bool: Kind.BOOL, str: Kind.STRING, bytes: Kind.BYTES, UUID: Kind.UUID}


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions; an empty one has `last < first`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Read Kafka's notation: "3+", "0-4", "7" or "none"; raise ValueError on anything else."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), OPEN)
        first, dash, last = text.partition("-")
        return cls(int(first), int(last if dash else first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        if self.last < self.first:
            return "none"
        if self.last == OPEN:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


NEVER: Final = Versions.parse("none")
ALWAYS: Final = Versions.parse("0+")


@dataclass(frozen=True, slots=True)
class Wire:
    """Marks a Python annotation with the wire type that it stands for."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """What a declaration says about a field beyond its type."""

    versions: Versions = ALWAYS
    nullable: Versions = NEVER
    tag: int | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message or struct.

    `kind` is the wire type; for an array `element` is that of its elements; `struct` belongs to either.
    A tagged struct that is absent is None in Python, whether or not the wire knows null there.
    """

    name: str
    kind: Kind
    element: Kind | None
    struct: "Struct | None"
    versions: Versions
    nullable: Versions
    tag: int | None
    default: object

    def type_name(self) -> str:
        """Kafka's notation of the type: "int32", "[]string", "[]FetchTopic"."""
        kind = self.element if self.element is not None else self.kind
        name = self.struct.name if self.struct is not None else kind.value
        return f"[]{name}" if self.kind is Kind.ARRAY else name


@dataclass(frozen=True, slots=True)
class Struct:
    """A group of fields, and the class that holds their values."""

    name: str
    cls: type
    fields: tuple[Field, ...]

    def untagged(self, version: int) -> list[Field]:
        """The fields that stand in the body of this version, in their order on the wire."""
        return [field for field in self.fields if version in field.versions and field.tag is None]

    def tagged(self, version: int) -> list[Field]:
        """The fields that this version writes as tagged fields, by ascending tag."""
        found = [
            (field.tag, field) for field in self.fields if version in field.versions and field.tag is not None
        ]
        return [field for _, field in sorted(found, key=lambda pair: pair[0])]


@dataclass(frozen=True, slots=True)
class Message:
    """A request or response: its struct, its API key, and the versions that are declared."""

    api_key: int
    versions: Versions
    flexible: Versions
    struct: Struct


def read_struct(cls: type) -> Struct:
    """Read the struct that a decorated class declares; raise TypeError if the declaration makes no sense."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = []
    for item in dataclasses.fields(cls):
        if item.name == UNKNOWN_TAGGED_FIELDS:
            continue
        spec = item.metadata.get("wire", FieldSpec())
        where = f"{cls.__name__}.{item.name}"
        fields.append(_read_field(where, item, spec, hints[item.name]))
    return Struct(cls.__name__, cls, tuple(fields))


def _read_field(where: str, item: "dataclasses.Field[object]", spec: FieldSpec, hint: object) -> Field:
    hint, optional = _without_none(hint)
    kind, element, struct = _wire_type(where, hint)
    absent = spec.tag is not None and kind is Kind.STRUCT
    if optional != (spec.nullable != NEVER or absent):
        raise TypeError(f"{where}: 'None' in the annotation and nullable= must go together")
    default: object = item.default
    if item.default_factory is not dataclasses.MISSING:
        default = item.default_factory()
    if default is dataclasses.MISSING and (spec.tag is not None or spec.versions != ALWAYS):
        raise TypeError(f"{where}: some versions lack it, so it must state its default")
    return Field(item.name, kind, element, struct, spec.versions, spec.nullable, spec.tag, default)


def _without_none(hint: object) -> tuple[object, bool]:
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    return parts[0], True


def _wire_type(where: str, hint: object) -> tuple[Kind, Kind | None, Struct | None]:
    if typing.get_origin(hint) is list:
        kind, element, struct = _wire_type(where, typing.get_args(hint)[0])
        if element is not None:
            raise TypeError(f"{where}: an array of arrays cannot be declared")
        return Kind.ARRAY, kind, struct
    if typing.get_origin(hint) is typing.Annotated:
        for mark in typing.get_args(hint)[1:]:
            if isinstance(mark, Wire):
                return mark.kind, None, None
    if isinstance(hint, type):
        if hint in _PLAIN:
            return _PLAIN[hint], None, None
        if dataclasses.is_dataclass(hint):
            return Kind.STRUCT, None, read_struct(hint)
    raise TypeError(f"{where}: {hint} is no wire type (an int must say its width, as in int32)")
