"""Request and response headers, and whole frames of the two: size prefix, header, body.

Which header a frame has follows from API and version: flexible versions have tagged fields in both headers,
save for the response to ApiVersions, whose header never has them, since the client does not yet know what the
broker speaks (KIP-511). The client id keeps its two-byte length in all of them for the same reason.
"""

import struct
from typing import Any, Final, NamedTuple

from protocol import wire
from protocol.errors import DecodeError
from protocol.message import Buffer, decode, encode, schema

API_VERSIONS_KEY: Final = 18

FIRST_FLEXIBLE_VERSION: Final = {
    0: 9,  # Produce
    1: 12,  # Fetch
    2: 6,  # ListOffsets
    3: 9,  # Metadata
    8: 8,  # OffsetCommit
    9: 6,  # OffsetFetch
    10: 3,  # FindCoordinator
    11: 6,  # JoinGroup
    12: 4,  # Heartbeat
    13: 4,  # LeaveGroup
    14: 4,  # SyncGroup
    15: 5,  # DescribeGroups
    16: 3,  # ListGroups
    18: 3,  # ApiVersions
    22: 2,  # InitProducerId
    23: 4,  # OffsetForLeaderEpoch
    32: 4,  # DescribeConfigs
    42: 2,  # DeleteGroups
    60: 0,  # DescribeCluster
    75: 0,  # DescribeTopicPartitions
}
"""By API key, the first version with flexible headers; it stands here so that a header can be read before the
module that declares its body is imported. APIs that are not listed have no flexible version that we know."""

_NEVER: Final = 1 << 15
_FIXED: Final = struct.Struct(">hhih")
_RESPONSE: Final = struct.Struct(">ii").pack
_FLEXIBLE_RESPONSE: Final = struct.Struct(">iiB").pack
_SIZE: Final = struct.Struct(">i").pack
_JOIN_BYTES: Final = 65536


class RequestHeader(NamedTuple):
    """Who asks for what: API, version, the number that the response must carry, the client's own name."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(data: bytes, offset: int = 0) -> tuple[RequestHeader, int]:
    """Read the header at `offset` of a frame without its size prefix: the header, the offset of the body.

    Tagged fields of the header are skipped; none are defined. Raises DecodeError.
    """
    try:
        api_key, api_version, correlation_id, length = _FIXED.unpack_from(data, offset)
        position = offset + 10
        client_id = None
        if length >= 0:
            stop = position + length
            if stop > len(data):
                raise DecodeError("the client id runs past the end of the frame")
            client_id = data[position:stop].decode()
            position = stop
        elif length < -1:
            raise DecodeError("the client id has a negative length")
        if api_version >= FIRST_FLEXIBLE_VERSION.get(api_key, _NEVER):
            count = data[position]
            position += 1
            if count:
                ignored = _Ignored()
                position = wire.read_tagged_fields(
                    ignored, {}, "the request header", data, position, len(data), count
                )
    except (struct.error, IndexError) as error:
        raise DecodeError(f"the request header is cut off: {len(data) - offset} bytes") from error
    except UnicodeDecodeError as error:
        raise DecodeError("the client id is not UTF-8") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


class _Ignored:
    """Takes the tagged fields of a header."""


def response_header_is_flexible(api_key: int, api_version: int) -> bool:
    """Whether the response's header has tagged fields."""
    return api_key != API_VERSIONS_KEY and api_version >= FIRST_FLEXIBLE_VERSION.get(api_key, _NEVER)


def response_frame(correlation_id: int, response: object, version: int) -> list[Buffer]:
    """A response ready to be written: buffers, the first of which begins with the size of the frame.

    Long records stay the caller's own buffers, uncopied.
    """
    buffers = encode(response, version)
    size = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
    if response_header_is_flexible(schema(type(response)).api_key, version):
        head = _FLEXIBLE_RESPONSE(size + 5, correlation_id, 0)
    else:
        head = _RESPONSE(size + 4, correlation_id)
    return _with_head(head, buffers)


def request_frame(request: object, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """A request ready to be written, as a client sends it."""
    buffers = encode(request, version)
    key = schema(type(request)).api_key
    name = b"" if client_id is None else client_id.encode()
    head = _FIXED.pack(key, version, correlation_id, -1 if client_id is None else len(name)) + name
    if version >= FIRST_FLEXIBLE_VERSION.get(key, _NEVER):
        head += b"\0"
    return _with_head(_SIZE(len(head) + sum(map(len, buffers))) + head, buffers)


def decode_response(cls: type[Any], version: int, data: bytes) -> tuple[int, Any]:
    """Read a response's frame (without its size prefix), as a client does: (correlation id, response).

    Raises DecodeError. A broker answers an ApiVersions request of a version that it lacks in version 0.
    """
    key = schema(cls).api_key
    if len(data) < 4:
        raise DecodeError(f"the response header is cut off: {len(data)} bytes")
    (correlation_id,) = struct.unpack_from(">i", data)
    position = 4
    if response_header_is_flexible(key, version):
        try:
            count = data[4]
            position = 5
            if count:
                position = wire.read_tagged_fields(
                    _Ignored(), {}, "the response header", data, position, len(data), count
                )
        except IndexError as error:
            raise DecodeError("the response header is cut off") from error
    if key == API_VERSIONS_KEY and data[position : position + 2] == b"\x00\x23":
        version = 0
    return correlation_id, decode(cls, version, data, position)


def _with_head(head: bytes, buffers: list[Buffer]) -> list[Buffer]:
    first = buffers[0]
    if len(first) <= _JOIN_BYTES and type(first) is bytes:
        buffers[0] = head + first
    else:
        buffers.insert(0, head)
    return buffers
