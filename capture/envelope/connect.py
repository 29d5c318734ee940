"""Kafka Connect's schema model, from which Avro and JSON schema texts both follow (debezium/02 section 5).

Values are held as they go on the wire: bool, int, float, str, bytes (a Decimal is its unscaled bytes),
list for an array, list of pairs for a map, tuple in field order for a struct, None for null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

Value: TypeAlias = "bool | int | float | str | bytes | Sequence[Value] | None"


class Type(StrEnum):
    """Connect's types, by the names that JsonConverter prints."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT = "float"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class Schema:
    """One Connect schema. `parameters` keeps its order; `default` None means that there is none."""

    type: Type
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    default: Value = None
    fields: tuple[Field, ...] = ()
    items: Schema | None = None
    keys: Schema | None = None
    values: Schema | None = None

    def as_optional(self, optional: bool = True) -> Schema:
        """The same schema with another optionality."""
        return replace(self, optional=optional)

    def with_default(self, default: Value) -> Schema:
        """The same schema with a default value."""
        return replace(self, default=default)

    @property
    def scale(self) -> int | None:
        """The scale of a Connect Decimal, None for any other schema."""
        if self.name != DECIMAL:
            return None
        return int(dict(self.parameters)["scale"])


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    schema: Schema


DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"

INT16: Final = Schema(Type.INT16)
INT32: Final = Schema(Type.INT32)
INT64: Final = Schema(Type.INT64)
FLOAT: Final = Schema(Type.FLOAT)
DOUBLE: Final = Schema(Type.DOUBLE)
BOOLEAN: Final = Schema(Type.BOOLEAN)
STRING: Final = Schema(Type.STRING)
BYTES: Final = Schema(Type.BYTES)


def semantic(base: Schema, name: str, *parameters: tuple[str, str], doc: str | None = None) -> Schema:
    """A named schema of version 1, as all of Debezium's and Connect's semantic types are."""
    return replace(base, name=name, version=1, parameters=parameters, doc=doc)


def array(items: Schema) -> Schema:
    """An array schema."""
    return Schema(Type.ARRAY, items=items)


def struct(
    name: str | None,
    *fields: tuple[str, Schema],
    version: int | None = None,
    optional: bool = False,
    doc: str | None = None,
) -> Schema:
    """A struct schema from (name, schema) pairs."""
    return Schema(
        Type.STRUCT,
        optional=optional,
        name=name,
        version=version,
        doc=doc,
        fields=tuple(Field(field_name, schema) for field_name, schema in fields),
    )


def decimal(scale: int, precision: int | None) -> Schema:
    """Connect Decimal. Debezium adds the precision as a parameter of Confluent's, except for money."""
    parameters = [("scale", str(scale))]
    if precision is not None:
        parameters.append(("connect.decimal.precision", str(precision)))
    return semantic(BYTES, DECIMAL, *parameters)
