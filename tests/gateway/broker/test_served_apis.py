"""What is advertised, what each API says when it went wrong, and requests recorded from real clients."""

import importlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.apis import APIS, Api, served
from gateway.broker.dispatch import response_of
from gateway.broker.refusals import refusal
from protocol import message
from protocol.errors import ErrorCode
from protocol.header import decode_request_header, decode_response
from protocol.schema import Kind
from tests.support.in_process import InProcessGateway

FRAMES = Path(__file__).parents[2] / "golden" / "frames"


def test_the_ranges_are_those_that_cover_every_client_in_use() -> None:
    assert {api.api_key: (api.min_version, api.max_version) for api in served()} == {
        0: (0, 13),  # Produce, refused
        1: (4, 18),  # Fetch
        2: (1, 11),  # ListOffsets
        3: (0, 13),  # Metadata
        8: (2, 10),  # OffsetCommit
        9: (1, 10),  # OffsetFetch
        10: (0, 6),  # FindCoordinator
        11: (0, 9),  # JoinGroup
        12: (0, 4),  # Heartbeat
        13: (0, 5),  # LeaveGroup
        14: (0, 5),  # SyncGroup
        15: (0, 6),  # DescribeGroups
        16: (0, 5),  # ListGroups
        18: (0, 5),  # ApiVersions
        22: (0, 5),  # InitProducerId
        23: (2, 4),  # OffsetForLeaderEpoch
        32: (1, 4),  # DescribeConfigs
        42: (0, 2),  # DeleteGroups
        60: (0, 2),  # DescribeCluster
        75: (0, 0),  # DescribeTopicPartitions
    }


def example(cls: type) -> Any:
    """A message with one of everything."""
    return _struct(message.schema(cls).struct)


def _struct(struct_: Any) -> Any:
    values = {}
    for field in struct_.fields:
        if field.kind is Kind.ARRAY:
            element = _struct(field.struct) if field.element is Kind.STRUCT else _scalar(field.element)
            values[field.name] = [element]
        elif field.kind is Kind.STRUCT:
            values[field.name] = _struct(field.struct)
        elif field.name == "acks":
            values[field.name] = -1
        else:
            values[field.name] = _scalar(field.kind)
    return struct_.cls(**values)


def _scalar(kind: Kind) -> Any:
    import uuid

    if kind is Kind.STRING:
        return "name"
    if kind in (Kind.BYTES, Kind.RECORDS):
        return b"bytes"
    if kind is Kind.UUID:
        return uuid.UUID(int=7)
    return kind is Kind.BOOL or 1


def error_codes(value: Any) -> list[int]:
    """All error codes in a response."""
    if isinstance(value, list):
        return [code for item in value for code in error_codes(item)]
    if not hasattr(value, "__dataclass_fields__"):
        return []
    found = [value.error_code] if "error_code" in value.__dataclass_fields__ else []
    return found + [code for name in value.__dataclass_fields__ for code in error_codes(getattr(value, name))]


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_every_api_can_refuse_a_request_as_a_whole(api: Api) -> None:
    request = example(api.request)
    response = refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert type(response) is response_of(api.request)
    for version in range(api.served.min_version, api.served.max_version + 1):
        data = b"".join(message.encode(response, version))
        codes = error_codes(message.decode(type(response), version, data))
        assert ErrorCode.UNKNOWN_SERVER_ERROR in codes, version


def recorded() -> list[Any]:
    rows = []
    for path in sorted(FRAMES.glob("*.jsonl")):
        _client, *requests = map(json.loads, path.read_text().splitlines())
        rows.append(pytest.param([row for row in requests if is_served(row)], id=path.stem))
    return rows


def is_served(row: dict[str, Any]) -> bool:
    for api in APIS:
        if api.request.__name__ == row["api"]:
            return api.served.min_version <= row["version"] <= api.served.max_version
    return False


@pytest.mark.parametrize("rows", recorded())
def test_recorded_requests_are_answered_in_their_version(rows: list[dict[str, Any]]) -> None:
    """Each on a connection of its own; whatever the answer says, it must be one that the client can read."""
    assert rows
    with InProcessGateway() as service:
        service.topic("shop.public.orders")
        for row in rows:
            frame = bytes.fromhex(row["frame"])
            header, _ = decode_request_header(frame)
            module = importlib.import_module(f"protocol.messages.{snake(row['api'])}")
            response = getattr(module, row["api"].removesuffix("Request") + "Response")
            with service.client() as client:
                client.socket.sendall(struct.pack(">i", len(frame)) + frame)
                if row["api"] in ("JoinGroupRequest", "SyncGroupRequest"):
                    continue  # answered when a whole group is there: tested with groups
                answer = client.receive_frame()
            correlation_id, _ = decode_response(response, row["version"], answer)
            assert correlation_id == header.correlation_id
        assert service.gateway.metrics.decode_errors == 0


def snake(name: str) -> str:
    import re

    return re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("Request")).lower()
