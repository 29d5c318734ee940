"""Our bytes against kafka-python's codec, in both directions, for every message and version."""

import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.message import decode, encode, schema
from protocol.schema import ZERO_UUID, Field, Kind, Struct
from tests.protocol.every_message import EVERY, values

with warnings.catch_warnings():
    # It reads its definitions by a deprecated function.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.api_header import ResponseClassRegistry
    from kafka.protocol.api_message import ApiMessage

LACKING = {
    ("ApiVersionsRequest", 5): "KIP-1242 is newer than kafka-python 3.0; held by a golden frame instead",
    ("ApiVersionsResponse", 5): "KIP-1242 is newer than kafka-python 3.0; the same as version 4",
}

CASES = [
    pytest.param(cls, version, id=f"{cls.__name__}-v{version}")
    for cls, version in EVERY
    if (cls.__name__, version) not in LACKING
]

_codecs: dict[str, Any] = {}


def codec(name: str) -> Any:
    """kafka-python's class for a message, made anew from its definition, without its client's patches."""
    if name not in _codecs:
        # A new class takes the place of the one that its client decodes with, were it not for this.
        registered = ResponseClassRegistry._response_class_registry
        before = dict(registered)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            _codecs[name] = type(ApiMessage)(name, (ApiMessage,), {})
        registered.clear()
        registered.update(before)
    return _codecs[name]


def to_theirs(of: Struct, value: Any, version: int, make: Any) -> Any:
    """The same value as an object of kafka-python."""
    given_: dict[str, Any] = {}
    for field in of.fields:
        if version not in field.versions:
            continue
        given_[field.name] = _to_theirs(field, getattr(value, field.name), version, make)
    return make(version=version, **given_)


def _to_theirs(field: Field, value: Any, version: int, make: Any) -> Any:
    if value is None:
        return None
    if field.struct is not None:
        nested = getattr(make, field.struct.name)
        if field.kind is Kind.ARRAY:
            return [to_theirs(field.struct, item, version, nested) for item in value]
        return to_theirs(field.struct, value, version, nested)
    if field.kind is Kind.UUID and value == ZERO_UUID and field.tag is not None:
        return None
    return value


quick = settings(
    max_examples=8,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize(("cls", "version"), CASES)
@quick
@given(data=st.data())
def test_bytes_are_those_of_kafka_python(cls: type, version: int, data: st.DataObject) -> None:
    value = data.draw(values(cls, version, unknown_tags=False))
    wire = b"".join(encode(value, version))
    other = codec(cls.__name__)
    assert to_theirs(schema(cls).struct, value, version, other).encode(version=version) == wire
    # Their decoder's understanding, written by ours again.
    back = other.decode(wire, version=version)
    back._header = None  # its decoder leaves out an attribute that its encoder looks at
    assert back.encode(version=version) == wire
    assert decode(cls, version, back.encode(version=version)) == value


@pytest.mark.parametrize("name", sorted({name for name, _ in LACKING}))
def test_what_kafka_python_lacks_is_really_lacking(name: str) -> None:
    """When it learns these versions, the exceptions above must go."""
    assert codec(name).max_version == min(version for other, version in LACKING if other == name) - 1
