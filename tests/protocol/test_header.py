"""Request and response headers, and the frames around messages."""

import struct
from random import Random

import pytest

from protocol.errors import DecodeError
from protocol.header import (
    RequestHeader,
    decode_request_header,
    decode_response,
    request_frame,
    response_frame,
    response_header_is_flexible,
)
from protocol.message import decode, encode
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.list_offsets import ListOffsetsRequest

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.mark.parametrize("client_id", [None, "", "kcat", "ümlaut"])
@pytest.mark.parametrize("version", [0, 4])
def test_a_request_frame_is_read_back(version: int, client_id: str | None) -> None:
    frame = b"".join(request_frame(HEARTBEAT, version, 77, client_id))
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    header, offset = decode_request_header(frame[4:])
    assert header == RequestHeader(12, version, 77, client_id)
    assert decode(HeartbeatRequest, version, frame[4:], offset) == HEARTBEAT


def test_tagged_fields_of_a_header_are_skipped() -> None:
    body = b"".join(encode(HEARTBEAT, 4))
    header = struct.pack(">hhih", 12, 4, 1, -1) + bytes((1, 0, 3)) + b"abc"
    found, offset = decode_request_header(header + body)
    assert found.client_id is None
    assert decode(HeartbeatRequest, 4, header + body, offset) == HEARTBEAT


def test_header_of_an_unknown_api_is_read() -> None:
    assert decode_request_header(struct.pack(">hhih", 999, 9, 5, 1) + b"x")[0] == RequestHeader(
        999, 9, 5, "x"
    )


def test_header_of_a_version_from_the_future_is_read() -> None:
    """KIP-511: an ApiVersions request of any version must be understood well enough to be answered in v0."""
    data = struct.pack(">hhih", 18, 99, 5, 1) + b"x\0" + b"whatever comes"
    header, offset = decode_request_header(data)
    assert header == RequestHeader(18, 99, 5, "x")
    assert offset == 12


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "cut off"),
        (struct.pack(">hhi", 1, 4, 0), "cut off"),
        (struct.pack(">hhih", 1, 4, 0, 5) + b"abc", "runs past the end"),
        (struct.pack(">hhih", 1, 4, 0, -2), "negative length"),
        (struct.pack(">hhih", 1, 4, 0, 1) + b"\xff", "not UTF-8"),
        (struct.pack(">hhih", 1, 12, 0, -1), "cut off"),
        (struct.pack(">hhih", 1, 12, 0, -1) + b"\x01\x00\x09", "runs past the end"),
        (struct.pack(">hhih", 1, 12, 0, -1) + b"\xff\xff\xff\xff\x0f", "declares"),
        (struct.pack(">hhih", 1, 12, 0, -1) + b"\xff\xff\xff\xff\xff\x0f", "varint"),
    ],
)
def test_a_malformed_header_is_a_decode_error(data: bytes, says: str) -> None:
    with pytest.raises(DecodeError, match=says):
        decode_request_header(data)


def test_random_headers_raise_only_decode_errors() -> None:
    random = Random(1)
    for _ in range(5000):
        head = struct.pack(">hh", random.randrange(80), random.randrange(20))
        try:
            decode_request_header(head + random.randbytes(random.randrange(20)))
        except DecodeError:
            continue


def test_response_header_of_api_versions_is_never_flexible() -> None:
    assert not response_header_is_flexible(18, 4)
    assert response_header_is_flexible(12, 4)
    assert not response_header_is_flexible(12, 3)
    assert not response_header_is_flexible(999, 3)


@pytest.mark.parametrize("version", [0, 4])
def test_a_response_frame_is_read_back(version: int) -> None:
    response = HeartbeatResponse(error_code=27)
    frame = b"".join(response_frame(5, response, version))
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    assert decode_response(HeartbeatResponse, version, frame[4:]) == (5, response)


def test_an_unsupported_version_of_api_versions_is_answered_in_version_0() -> None:
    """The fallback is on every new client's path: error 35, a body of version 0, the range of key 18."""
    answer = ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)]
    )
    frame = b"".join(response_frame(9, answer, 0))
    assert frame.hex() == "0000001000000009002300000001001200000004"
    assert decode_response(ApiVersionsResponse, 5, frame[4:]) == (9, answer)


def test_frames_of_records_keep_the_buffer_of_the_caller() -> None:
    records = memoryview(bytes(1 << 20))
    partition = PartitionData(partition_index=0, high_watermark=1, records=records)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    for version in (4, 12):
        buffers = response_frame(3, response, version)
        assert [len(buffer) > 1000 for buffer in buffers] == [False, True, False][: len(buffers)]
        assert buffers[1] is records
        frame = b"".join(buffers)
        assert struct.unpack_from(">ii", frame) == (len(frame) - 4, 3)
        assert decode_response(FetchResponse, version, frame[4:]) == (3, response)


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\1"])
def test_a_response_that_is_cut_off_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_response(HeartbeatResponse, 4, data)


def test_a_request_says_who_sends_it() -> None:
    request = ApiVersionsRequest(client_software_name="n", client_software_version="v")
    frame = b"".join(request_frame(request, 3, 1, "c"))
    assert frame.hex() == "00000011001200030000000100016300026e027600"


def test_a_large_body_is_not_copied_behind_its_header() -> None:
    body = b"".join(encode(ListOffsetsRequest(topics=[]), 1))
    assert len(request_frame(ListOffsetsRequest(topics=[]), 1, 1, None)) == 1
    answer = ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=1, min_version=0, max_version=1) for _ in range(20_000)]
    )
    buffers = response_frame(1, answer, 0)
    assert len(buffers) == 2
    assert struct.unpack_from(">i", b"".join(buffers)) == (sum(map(len, buffers)) - 4,)
    assert len(body) == 8
