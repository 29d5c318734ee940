"""Compression of record batches: framings that other clients read, theirs read by us, and bombs bounded."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from protocol.records import Codec, DecodeError, Record, build, check_crc, compress, decompress, records

GOLDEN = Path(__file__).parents[1] / "golden" / "record_batches"
COMPRESSED = [codec for codec in Codec if codec is not Codec.NONE]
MIXED = random.Random(5).randbytes(70_000) + b"a longer text that repeats " * 9_000


def records_of_golden_files() -> list[Record]:
    made, state = [], 1
    for i in range(200):
        value = None if i % 7 == 0 else f"value-{i}-".encode() * (i % 60)
        if i % 25 == 1:
            noise = bytearray()
            for _ in range(9000):
                state = (state * 1103515245 + 12345) & 0x7FFFFFFF
                noise.append((state >> 16) & 0xFF)
            value = bytes(noise)
        headers = () if i % 3 == 0 else (("h\u00e9", f"x{i}".encode()), ("n", None))
        key = None if i % 4 == 0 else f"key-{i}".encode()
        made.append(Record(1000 + i, 1_700_000_000_000 + 3 * i, key, value, headers))
    return made


@pytest.mark.parametrize("codec", COMPRESSED)
def test_batches_of_the_java_client_are_read(codec: Codec) -> None:
    batch = (GOLDEN / f"{codec.name.lower()}.bin").read_bytes()
    header = check_crc(batch)
    assert list(records(batch)) == records_of_golden_files()
    assert (header.codec, header.partition_leader_epoch) == (codec, 4)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 3)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("plain", [b"", b"x", MIXED[:65_536], MIXED], ids=len)
def test_compressed_bytes_come_back(codec: Codec, plain: bytes) -> None:
    packed = compress(codec, plain)
    assert bytes(decompress(codec, packed)) == plain
    assert bytes(decompress(codec, memoryview(packed), limit=len(plain))) == plain


@pytest.mark.parametrize(("codec", "level"), [(Codec.GZIP, 1), (Codec.ZSTD, 9), (Codec.ZSTD, 3)])
def test_levels_are_honoured(codec: Codec, level: int) -> None:
    packed = compress(codec, MIXED, level=level)
    assert packed != compress(codec, MIXED)
    assert bytes(decompress(codec, packed)) == MIXED


@pytest.mark.parametrize("codec", Codec)
def test_another_client_reads_ours_and_we_read_its(codec: Codec) -> None:
    made = [
        Record(n, 10**12 - n, b"k" * n, None if n % 9 == 0 else b"value " * (n * 40), (("h", b""),))
        for n in range(60)
    ]
    other = DefaultRecordBatch(build(made, codec=codec))
    assert other.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in other] == made
    builder = DefaultRecordBatchBuilder(2, int(codec), 0, -1, -1, -1, 10**7)
    for record in made:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    assert list(records(bytes(builder.build()))) == made


def test_snappy_is_written_in_xerial_chunks_and_read_raw_too() -> None:
    packed = compress(Codec.SNAPPY, MIXED)
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    assert cramjam.snappy.decompress_raw_len(packed[20 : 20 + int.from_bytes(packed[16:20])]) == 32 * 1024
    assert bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(MIXED)))) == MIXED


def test_lz4_is_written_with_the_flags_that_java_accepts() -> None:
    # KafkaLZ4BlockInputStream: version 1, independent blocks, 64 KiB; no checksums and no content size.
    assert compress(Codec.LZ4, MIXED)[:7] == b"\x04\x22\x4d\x18\x60\x40\x82"
    assert compress(Codec.LZ4, MIXED)[-4:] == bytes(4)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_is_bounded(codec: Codec) -> None:
    packed = compress(codec, bytes(50_000_000))
    assert len(packed) < 3_000_000
    with pytest.raises(DecodeError, match="more than 1000000 bytes"):
        decompress(codec, packed, limit=1_000_000)
    with pytest.raises(DecodeError, match="more than 49999999 bytes"):
        decompress(codec, packed, limit=49_999_999)


def test_a_bomb_inside_a_batch_is_bounded() -> None:
    batch = build([Record(0, 0, None, bytes(10_000_000))], codec=Codec.ZSTD)
    with pytest.raises(DecodeError, match="unpacks to more than"):
        list(records(batch, limit=100_000))
    assert len(list(records(batch))) == 1


@pytest.mark.parametrize("codec", COMPRESSED)
def test_cut_and_damaged_data_is_refused(codec: Codec) -> None:
    packed = compress(codec, MIXED)
    for cut in (0, 1, 5, 18, len(packed) // 2, len(packed) - 1):
        if cut == 0 and codec is Codec.SNAPPY:
            continue
        with pytest.raises(DecodeError):
            decompress(codec, packed[:cut])
    with pytest.raises(DecodeError):
        decompress(codec, packed + b"more bytes")


def test_gzip_of_any_level_and_with_a_name_is_read() -> None:
    assert decompress(Codec.GZIP, gzip.compress(MIXED, 9)) == MIXED


def test_snappy_that_promises_too_much_is_refused_before_it_is_given_room() -> None:
    for promise in (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x40"):
        with pytest.raises(DecodeError):
            decompress(Codec.SNAPPY, promise + b"\x00" * 20)
