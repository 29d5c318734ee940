"""Every declared (message, version), and random values of each."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

import protocol.messages
from protocol.message import is_flexible, schema, versions
from protocol.schema import UNKNOWN_TAGGED_FIELDS, Field, Kind, Struct


def messages() -> list[type]:
    """All declared requests and responses, requests first, by API key."""
    found = set()
    for module in pkgutil.iter_modules(protocol.messages.__path__):
        names = vars(importlib.import_module(f"protocol.messages.{module.name}"))
        found.update(value for value in names.values() if isinstance(value, type) and is_message(value))
    return sorted(found, key=lambda cls: (schema(cls).api_key, cls.__name__))


def is_message(cls: type) -> bool:
    try:
        schema(cls)
    except TypeError:
        return False
    return True


def every_version() -> Iterator[tuple[type, int]]:
    for cls in messages():
        for version in versions(cls):
            yield cls, version


EVERY = [(cls, version) for cls, version in every_version()]
IDS = [f"{cls.__name__}-v{version}" for cls, version in EVERY]

_INTS = {
    Kind.INT8: (-(2**7), 2**7 - 1),
    Kind.INT16: (-(2**15), 2**15 - 1),
    Kind.INT32: (-(2**31), 2**31 - 1),
    Kind.INT64: (-(2**63), 2**63 - 1),
}

# Long enough that a compact length takes two bytes, and records are not joined.
_LONG = st.sampled_from([126, 127, 128, 1023, 1024, 1025, 5000])
_STRINGS = st.text(max_size=5) | _LONG.map(lambda size: "é" * (size // 2))
_BYTES = st.binary(max_size=5) | _LONG.map(bytes)


def values(cls: type, version: int, *, unknown_tags: bool = True) -> st.SearchStrategy[Any]:
    """Values of a message as a peer of this version can send them; what it lacks is at its default."""
    flexible = is_flexible(cls, version)
    return _struct(schema(cls).struct, version, flexible and unknown_tags)


def _struct(of: Struct, version: int, unknown_tags: bool) -> st.SearchStrategy[Any]:
    tagged = of.tagged(version)
    parts = {field.name: _field(field, version, unknown_tags) for field in of.untagged(version)}
    parts |= {
        field.name: st.just(field.default) | _field(field, version, unknown_tags).filter(_is_present)
        for field in tagged
    }
    unknown: st.SearchStrategy[dict[int, bytes]] = st.just({})
    if unknown_tags:
        tags = st.sampled_from([9, 127, 128, 2**32 - 1])
        unknown = st.just({}) | st.dictionaries(tags, _BYTES, min_size=1, max_size=2)

    def make(parts: dict[str, Any], unknown: dict[int, bytes]) -> Any:
        made = of.cls(**parts)
        setattr(made, UNKNOWN_TAGGED_FIELDS, unknown)
        return made

    return st.builds(make, st.fixed_dictionaries(parts), unknown)


def _is_present(value: object) -> bool:
    return value != []


def _field(field: Field, version: int, unknown_tags: bool) -> st.SearchStrategy[Any]:
    if field.kind is Kind.ARRAY:
        assert field.element is not None
        made: st.SearchStrategy[Any] = st.lists(
            _value(field.element, field, version, unknown_tags), max_size=3
        )
    else:
        made = _value(field.kind, field, version, unknown_tags)
    return st.none() | made if version in field.nullable else made


def _value(kind: Kind, field: Field, version: int, unknown_tags: bool) -> st.SearchStrategy[Any]:
    if kind in _INTS:
        least, most = _INTS[kind]
        return st.integers(least, most)
    if kind is Kind.BOOL:
        return st.booleans()
    if kind is Kind.UUID:
        return st.just(UUID(int=0)) | st.uuids()
    if kind is Kind.STRING:
        return _STRINGS
    if kind in (Kind.BYTES, Kind.RECORDS):
        return _BYTES
    assert field.struct is not None
    return _struct(field.struct, version, unknown_tags)
