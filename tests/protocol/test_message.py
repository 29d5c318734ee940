"""Declaring, decoding and encoding: what the properties over all messages do not show."""

import tracemalloc
from uuid import UUID

import pytest

from protocol import wire
from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.message import (
    api_key,
    decode,
    encode,
    field,
    int32,
    is_flexible,
    message,
    schema,
    versions,
)
from protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.schema import ZERO_UUID, Versions


def body(value: object, version: int) -> bytes:
    return b"".join(encode(value, version))


def test_a_message_knows_its_api() -> None:
    assert api_key(FetchRequest) == 1
    assert versions(FetchRequest) == range(4, 19)
    assert is_flexible(FetchRequest, 12)
    assert not is_flexible(FetchRequest, 11)


@pytest.mark.parametrize("version", [-1, 3, 19, 32767])
def test_an_undeclared_version_is_refused(version: int) -> None:
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    with pytest.raises(KafkaError, match=f"FetchRequest v{version} is not declared, only v4-18") as found:
        decode(FetchRequest, version, b"")
    assert found.value.code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(KafkaError):
        encode(request, version)


def test_a_class_that_is_no_message_is_refused() -> None:
    with pytest.raises(TypeError, match="FetchTopic is not declared with @message"):
        schema(FetchTopic)


def test_absent_fields_have_their_defaults() -> None:
    request = FetchRequest(max_wait_ms=1, min_bytes=2, topics=[], rack_id="r", session_id=9)
    found = decode(FetchRequest, 4, body(request, 4))
    assert found == FetchRequest(max_wait_ms=1, min_bytes=2, topics=[])
    assert found.forgotten_topics_data == []
    found.forgotten_topics_data.append(None)  # type: ignore[arg-type]  # only whose list it is matters
    assert decode(FetchRequest, 4, body(request, 4)).forgotten_topics_data == []


def test_bytes_after_the_message_are_ignored() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    assert decode(MetadataRequest, 4, body(request, 4) + b"\xff\xff") == request


def test_the_malformed_request_of_librdkafka_asks_for_all_topics() -> None:
    """librdkafka 2.3 to 2.16 write the null array of a flexible version as four zero bytes."""
    found = decode(MetadataRequest, 12, bytes.fromhex("00000000010000"))
    assert found.topics is None


def test_unknown_tagged_fields_are_kept_and_written_back() -> None:
    request = FetchRequest(
        max_wait_ms=1, min_bytes=1, topics=[FetchTopic(topic_id=UUID(int=5), partitions=[])], cluster_id="c"
    )
    request.unknown_tagged_fields = {7: b"seven", 200: b""}  # type: ignore[attr-defined]
    request.topics[0].unknown_tagged_fields = {0: b"x"}  # type: ignore[attr-defined]
    found = decode(FetchRequest, 13, body(request, 13))
    assert found == request
    assert found.unknown_tagged_fields == {7: b"seven", 200: b""}  # type: ignore[attr-defined]
    # By ascending tag: cluster_id is 0.
    assert body(request, 13).endswith(bytes.fromhex("03000202630705" + b"seven".hex() + "c80100"))


def test_a_known_tagged_field_may_grow() -> None:
    """A later version may append to a tagged struct; what we know of it is read, the rest skipped."""
    epoch = EpochEndOffset(epoch=1, end_offset=2)
    partition = PartitionData(partition_index=0, high_watermark=1, diverging_epoch=epoch)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    data = body(response, 12)
    field_ = bytes.fromhex("000d00000001000000000000000200")
    assert field_ in data
    longer = data.replace(field_, bytes.fromhex("000f00000001000000000000000200aaaa"))
    assert decode(FetchResponse, 12, longer) == response
    shorter = data.replace(field_, bytes.fromhex("000c00000001000000000000000200"))
    with pytest.raises(DecodeError, match="diverging_epoch is longer than the size"):
        decode(FetchResponse, 12, shorter)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("0000000100056162", r"topics\[\].name runs past the end"),
        ("00000001ffff", r"topics\[\].name must not be null"),
        ("00000001fffe", r"topics\[\].name must not be null, or has a negative length"),
        ("000000010001ff", "not UTF-8"),
        ("7fffffff000161", "topics declares 2147483647 elements in 3 bytes"),
        ("fffffffe", "topics has a negative length"),
        ("0000", "MetadataRequest v1 is cut off: 2 bytes"),
    ],
)
def test_errors_say_what_and_where(data: str, says: str) -> None:
    with pytest.raises(DecodeError, match=says):
        decode(MetadataRequest, 1, bytes.fromhex(data))


@pytest.mark.parametrize("data", ["ffffffff0f", "ffffffff7f", "ffffffffff01", "80808080", "808080800000", ""])
def test_compact_lengths_are_hostile_too(data: str) -> None:
    if data == "808080800000":  # overlong zero: null, and then the two flags are missing
        data = data[:-2]
    with pytest.raises(DecodeError):
        decode(MetadataRequest, 12, bytes.fromhex(data))


def test_counts_are_checked_before_anything_is_allocated() -> None:
    data = bytes.fromhex("ffffffff00000000000000007fffffff00") + b"\x07fffffff"
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode(FetchRequest, 4, data)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_an_offset_past_the_end_is_a_decode_error() -> None:
    with pytest.raises(DecodeError):
        decode(MetadataRequest, 0, b"", 5)


def test_records_are_views_when_decoded_and_the_callers_own_when_encoded() -> None:
    for size, alone in ((1023, False), (1024, False), (1025, True), (1 << 20, True)):
        for version in (4, 11, 12, 18):
            records = memoryview(bytearray(size))
            partitions = [
                PartitionData(partition_index=i, high_watermark=1, records=records) for i in range(2)
            ]
            response = FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)])
            buffers = encode(response, version)
            assert [buffer is records for buffer in buffers].count(True) == (2 if alone else 0)
            wire_bytes = b"".join(buffers)
            assert wire_bytes == b"".join(bytes(buffer) for buffer in buffers)
            found = decode(FetchResponse, version, wire_bytes)
            assert found == response
            again = found.responses[0].partitions[0].records
            assert isinstance(again, memoryview)
            assert again.obj is wire_bytes


def test_remembered_uuids_do_not_pile_up() -> None:
    for number in range(10_000):
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic_id=UUID(int=number), partitions=[])]
        )
        assert decode(FetchRequest, 13, body(request, 13)) == request
    assert len(wire.uuids) <= 4096
    assert wire.uuids[ZERO_UUID.bytes] is ZERO_UUID


def test_a_default_that_is_stated_in_hex_survives() -> None:
    assert FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]).max_bytes == 2**31 - 1
    assert FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=0).high_watermark == 2**63 - 1


@pytest.mark.parametrize("number", [0, 1, 127, 128, 16383, 16384, 2**21 - 1, 2**21, 2**28, 2**32 - 1])
def test_varints_are_read_back(number: int) -> None:
    data = wire.varint(number)
    if number < 128:
        assert data == bytes((number,))
    else:
        assert wire.rest_of_varint(data, 1, data[0]) == (number, len(data))


@pytest.mark.parametrize("number", [-1, 2**32])
def test_a_varint_has_32_bits(number: int) -> None:
    with pytest.raises(ValueError, match="32-bit"):
        wire.varint(number)


@pytest.mark.parametrize(
    ("text", "first", "last", "shown"),
    [
        ("3+", 3, 32767, "3+"),
        ("0-4", 0, 4, "0-4"),
        ("7", 7, 7, "7"),
        ("none", 0, -1, "none"),
        ("2-2", 2, 2, "2"),
    ],
)
def test_version_ranges(text: str, first: int, last: int, shown: str) -> None:
    assert Versions.parse(text) == Versions(first, last)
    assert str(Versions.parse(text)) == shown


@pytest.mark.parametrize("text", ["", "+", "a", "1-", "-1", "1-b"])
def test_other_version_ranges_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Versions.parse(text)


def test_a_declaration_that_makes_no_sense_is_refused() -> None:
    declare = message(key=1, versions="0-1", flexible="none")

    @declare
    class Numbers:
        plain: int

    @declare
    class NullWithoutVersions:
        name: str | None

    @declare
    class VersionsWithoutNull:
        name: str = field(nullable="1+")

    @declare
    class NoDefault:
        name: str = field("1+")

    @declare
    class NestedArrays:
        name: list[list[int32]]

    for cls, says in (
        (Numbers, "width"),
        (NullWithoutVersions, "go together"),
        (VersionsWithoutNull, "go together"),
        (NoDefault, "must state its default"),
        (NestedArrays, "array of arrays"),
    ):
        with pytest.raises(TypeError, match=says):
            schema(cls)
