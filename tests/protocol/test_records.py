"""Record batches: what is built is read back, by us and by others' codecs; what is malformed is refused."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records import (
    HEADER_SIZE,
    Codec,
    DecodeError,
    Record,
    batches,
    build,
    check_crc,
    encode_record,
    finish,
    read_header,
    records,
    stamp,
)

NULLABLE = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=20), NULLABLE), max_size=4).map(tuple)
ROWS = st.lists(st.tuples(st.integers(-(2**40), 2**42), NULLABLE, NULLABLE, HEADERS), min_size=1, max_size=20)


def numbered(rows: list[tuple[int, bytes | None, bytes | None, tuple]], first: int) -> list[Record]:
    return [Record(first + number, *row) for number, row in enumerate(rows)]


@given(ROWS, st.integers(0, 2**62), st.sampled_from(Codec))
def test_a_batch_reads_back_as_it_was_built(rows: list, first: int, codec: Codec) -> None:
    made = numbered(rows, first)
    batch = build(made, codec=codec, leader_epoch=7)
    header = check_crc(batch)
    assert list(records(batch)) == made
    assert header == read_header(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (
        first,
        made[-1].offset,
        len(made),
    )
    assert (header.partition_leader_epoch, header.codec, header.size_bytes) == (7, codec, len(batch))
    assert header.base_timestamp == made[0].timestamp
    assert header.max_timestamp == max(record.timestamp for record in made)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


@given(ROWS, st.integers(0, 2**62), st.integers(0, 2**31 - 1))
def test_a_stamp_changes_offsets_and_epoch_and_nothing_under_the_crc(
    rows: list, offset: int, epoch: int
) -> None:
    batch = build(numbered(rows, 0))
    stamp(batch, offset, epoch)
    header = check_crc(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (offset, epoch)
    assert list(records(batch)) == numbered(rows, offset)


def test_finish_gives_what_build_gives() -> None:
    made = [Record(number, 5000 + number, b"key", b"value", (("name", None),)) for number in range(3)]
    payload = b"".join(encode_record(n, n, b"key", b"value", (("name", None),)) for n in range(3))
    finished = finish(payload, record_count=3, base_timestamp=5000, max_timestamp=5002, codec=Codec.NONE)
    assert finished == build(made)
    assert isinstance(finished, bytearray)


def test_batches_are_walked_and_a_partial_one_ends_a_fetch_answer() -> None:
    first, second = build([Record(0, 1, None, b"a")]), build([Record(1, 2, None, b"b")])
    both = bytes(first + second)
    assert [(position, header.base_offset) for position, header in batches(both)] == [(0, 0), (len(first), 1)]
    for end in (len(first) + 1, len(both) - 1):
        assert len(list(batches(both[:end], allow_partial=True))) == 1
        with pytest.raises(DecodeError):
            list(batches(both[:end]))
    assert list(batches(b"")) == []


def test_log_append_time_gives_every_record_the_batch_s_time() -> None:
    batch = build([Record(0, 1000, None, None), Record(1, 2000, None, None)], attributes=0x08)
    assert [record.timestamp for record in records(batch)] == [2000, 2000]


def test_a_flipped_bit_is_found_by_the_crc() -> None:
    batch = build([Record(0, 1, b"key", b"value")])
    for position in range(21, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x10
        with pytest.raises(DecodeError):
            check_crc(damaged)


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [
        (16, b"\x01", "magic 1"),
        (8, b"\x00\x00\x00\x30", "length"),
        (8, b"\xff\xff\xff\xff", "length"),
        (8, b"\x7f\xff\xff\xff", "past the end"),
        (22, b"\x07", "codec 7"),
        (23, b"\xff\xff\xff\xff", "negative"),
        (57, b"\xff\xff\xff\xff", "negative"),
        (57, b"\x7f\xff\xff\xff", "cut off"),
        (57, b"\x00\x00\x00\x00", "follow the last record"),
    ],
)
def test_impossible_headers_are_refused(at: int, value: bytes, says: str) -> None:
    batch = build([Record(0, 1, b"key", b"value")])
    batch[at : at + len(value)] = value
    with pytest.raises(DecodeError, match=says):
        list(records(batch))


def test_declared_lengths_are_checked_before_anything_is_made_of_them() -> None:
    huge = b"\xfe\xff\xff\xff\x0f"  # zigzag of 2**31 - 1
    for payload in (
        huge + b"\x00" * 10,  # the record
        b"\x12\x00\x00\x00" + huge + b"\x00",  # its key
        b"\x14\x00\x00\x00\x01" + huge + b"\x00",  # its value
        b"\x14\x00\x00\x00\x01\x01" + huge,  # the number of its headers
        b"\x05" + b"\x00" * 5,  # a negative length
        b"\x80" * 12,  # a varint without an end
        b"\x0c\x00\x00\x00\x03\x01\x00",  # a key of length -2
    ):
        batch = finish(payload, record_count=1, base_timestamp=0, max_timestamp=0)
        with pytest.raises(DecodeError):
            list(records(batch))


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_random_bytes_raise_nothing_but_decode_errors(data: bytes) -> None:
    for read in (lambda: list(batches(data)), lambda: list(records(data)), lambda: check_crc(data)):
        try:
            read()
        except DecodeError:
            continue


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(Codec))
def test_mutated_batches_raise_nothing_but_decode_errors(seed: int, codec: Codec) -> None:
    rng = random.Random(seed)
    batch = build(
        [Record(n, n, rng.randbytes(5), b"abc" * rng.randrange(50), (("h", b"x"),)) for n in range(5)],
        codec=codec,
    )
    for _ in range(rng.randrange(1, 4)):
        batch[rng.randrange(HEADER_SIZE if rng.random() < 0.3 else 0, len(batch))] = rng.randrange(256)
    del batch[len(batch) - rng.choice((0, 0, 0, 1, 30)) :]
    try:
        read = list(records(batch, limit=10**6))
    except DecodeError:
        return
    assert all(isinstance(record, Record) for record in read)


def test_build_refuses_what_makes_no_batch() -> None:
    with pytest.raises(ValueError, match="base_offset"):
        build([])
    with pytest.raises(ValueError, match="offset 4"):
        build([Record(4, 0, None, None)], 5)
    assert list(records(build([], 5, last_offset_delta=3))) == []


def test_codec_names_are_kafka_s() -> None:
    assert [Codec.parse(name) for name in ("none", "gzip", "snappy", "LZ4", " zstd")] == list(Codec)
    with pytest.raises(ValueError, match="known are none, gzip"):
        Codec.parse("brotli")
