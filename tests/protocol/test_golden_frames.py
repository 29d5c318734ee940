"""Requests recorded from real clients are understood, and mean the same when written again."""

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from protocol.header import decode_request_header, request_frame
from protocol.message import api_key, decode, encode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest

FOLDER = Path(__file__).parents[1] / "golden" / "frames"


def frames() -> list[Any]:
    found = []
    for path in sorted(FOLDER.glob("*.jsonl")):
        _client, *rows = map(json.loads, path.read_text().splitlines())
        for number, row in enumerate(rows):
            name = f"{path.stem}-{row['api']}-v{row['version']}-{number}"
            found.append(pytest.param(row, id=name))
    return found


def message(name: str) -> type[Any]:
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("Request")).lower()
    found: type[Any] = getattr(importlib.import_module(f"protocol.messages.{module}"), name)
    return found


def read(client: str, api: str) -> list[Any]:
    """The bodies of all requests of an API that a client sent."""
    _client, *rows = map(json.loads, (FOLDER / f"{client}.jsonl").read_text().splitlines())
    bodies = []
    for row in rows:
        if row["api"] == api:
            frame = bytes.fromhex(row["frame"])
            bodies.append(decode(message(api), row["version"], frame, decode_request_header(frame)[1]))
    return bodies


@pytest.mark.parametrize("row", frames())
def test_a_recorded_frame_is_understood_and_written_again(row: dict[str, Any]) -> None:
    frame = bytes.fromhex(row["frame"])
    cls = message(row["api"])
    header, offset = decode_request_header(frame)
    assert (header.api_key, header.api_version) == (api_key(cls), row["version"])
    request = decode(cls, header.api_version, frame, offset)
    body = b"".join(encode(request, header.api_version))
    after = row.get("bytes_after", 0)
    assert len(frame) - offset - len(body) == after
    if not after:
        again = b"".join(request_frame(request, header.api_version, header.correlation_id, header.client_id))
        assert again[4:] == frame


def test_every_client_is_there() -> None:
    clients = {path.stem for path in FOLDER.glob("*.jsonl")}
    assert clients >= {"aiokafka-0.14.0", "java-4.3.0", "kafka-python-3.0.12", "librdkafka-2.16.0"}


def test_librdkafka_asks_for_all_topics_in_its_own_way() -> None:
    requests: list[MetadataRequest] = read("librdkafka-2.16.0", "MetadataRequest")
    assert None in [request.topics for request in requests]


def test_what_clients_ask_of_a_fetch() -> None:
    """As in the field: librdkafka opens no session, Java does."""
    (librdkafka,) = read("librdkafka-2.16.0", "FetchRequest")
    assert isinstance(librdkafka, FetchRequest)
    assert (librdkafka.session_id, librdkafka.session_epoch) == (0, -1)
    assert (librdkafka.max_wait_ms, librdkafka.isolation_level) == (500, 1)
    (java,) = read("java-4.3.0", "FetchRequest")
    assert (java.session_id, java.session_epoch) == (0, 0)


def test_api_versions_5_names_the_broker_that_is_expected() -> None:
    known, unknown = read("made-by-hand", "ApiVersionsRequest")
    assert isinstance(known, ApiVersionsRequest)
    assert (known.cluster_id, known.node_id) == ("Some-cluster-id-0000-1", 1)
    assert (unknown.cluster_id, unknown.node_id) == (None, -1)
