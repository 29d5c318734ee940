"""hstore, point, PostGIS and pgvector (debezium/03 sections 1 and 5)."""

from __future__ import annotations

from typing import Final

from capture.envelope import text_values
from capture.envelope.connect import (
    BYTES,
    DOUBLE,
    FLOAT,
    INT16,
    INT32,
    STRING,
    Schema,
    Type,
    Value,
    array,
    semantic,
    struct,
)
from capture.envelope.mapping import DEBEZIUM, Mapping, Op
from capture.envelope.options import EnvelopeOptions, HstoreHandling


def hstore_mapping(options: EnvelopeOptions) -> Mapping:
    placeholder = options.placeholder_text
    if options.hstore_handling is HstoreHandling.JSON:
        unavailable = f'{{"{placeholder}":"{placeholder}"}}'
        schema = semantic(STRING, DEBEZIUM + "data.Json")
        return Mapping(schema, Op.PYTHON, text_values.hstore_json, "{}", unavailable)
    schema = Schema(Type.MAP, keys=STRING, values=STRING.as_optional())
    empty: list[Value] = []
    return Mapping(schema, Op.PYTHON, text_values.hstore_map, empty, [(placeholder, placeholder)])


POINT: Final = struct(
    DEBEZIUM + "data.geometry.Point",
    ("x", DOUBLE),
    ("y", DOUBLE),
    ("wkb", BYTES.as_optional()),
    ("srid", INT32.as_optional()),
    version=1,
    doc="Geometry (POINT)",
)


def point_mapping() -> Mapping:
    return Mapping(POINT, Op.PYTHON, text_values.point, text_values.point_value(0.0, 0.0))


_EMPTY_COLLECTION: Final = bytes.fromhex("010700000000000000")


def geometry_mapping(name: str) -> Mapping:
    title = name.capitalize()
    schema = struct(
        f"{DEBEZIUM}data.geometry.{title}",
        ("wkb", BYTES),
        ("srid", INT32.as_optional()),
        version=1,
        doc=title,
    )
    return Mapping(schema, Op.PYTHON, text_values.geometry, (_EMPTY_COLLECTION, None), always_optional=True)


SPARSE_VECTOR: Final = struct(
    DEBEZIUM + "data.SparseDoubleVector",
    ("dimensions", INT16),
    ("vector", Schema(Type.MAP, keys=INT16, values=DOUBLE)),
    version=1,
    doc="Sparse double vector",
)


def vector_mapping(name: str) -> Mapping:
    empty: list[Value] = []
    if name == "sparsevec":
        return Mapping(SPARSE_VECTOR, Op.PYTHON, text_values.sparse_vector, (0, empty))
    item, title = (DOUBLE, "DoubleVector") if name == "vector" else (FLOAT, "FloatVector")
    schema = semantic(array(item), f"{DEBEZIUM}data.{title}")
    return Mapping(schema, Op.PYTHON, text_values.vector, empty)
