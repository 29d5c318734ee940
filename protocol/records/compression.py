"""The four codecs of record batches, in the framings that Java's client and librdkafka read and write.

gzip and zstd are plain streams. Snappy is written in xerial's framing (snappy-java's SnappyOutputStream) and
read in it or raw. LZ4 is the frame format, written as Java's KafkaLZ4BlockInputStream demands it: independent
blocks of at most 64 KiB, no checksums, no content size (KAFKA-3160).

Decompression never gives more than its limit, whatever the bytes declare.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Final

import cramjam

from protocol.errors import DecodeError

MAX_UNCOMPRESSED_BYTES: Final = 256 * 1024 * 1024

_INT32: Final = Struct(">i")
_UINT32_LE: Final = Struct("<I")

# snappy-java: magic, version 1, oldest compatible version 1; then chunks of (int32 length, raw snappy).
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_CHUNK: Final = 32 * 1024

# LZ4 frame: magic, FLG (version 1, independent blocks), BD (64 KiB blocks), second byte of XXH32(FLG, BD).
_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK: Final = 64 * 1024
_LZ4_UNCOMPRESSED: Final = 0x80000000
_LZ4_END: Final = b"\x00\x00\x00\x00"

# What cramjam says where the output buffer is too small.
_OUTPUT_FULL: Final = "failed to write whole buffer"

DecompressInto = Callable[[bytes | bytearray | memoryview, bytearray], int]

# Fast levels: a change log is written once and read a few times. Reason: performance.md, "Append".
_GZIP_LEVEL: Final = 6
_ZSTD_LEVEL: Final = 1


class Codec(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def parse(cls, name: str) -> "Codec":
        """Read Kafka's `compression.type` ("none", "gzip", …); raise ValueError naming the known ones."""
        try:
            return cls[name.strip().upper()]
        except KeyError:
            known = ", ".join(codec.name.lower() for codec in cls)
            raise ValueError(f"unknown compression type {name!r}; known are {known}") from None


def compress(codec: Codec, data: bytes | bytearray | memoryview, *, level: int | None = None) -> bytes:
    """Compress the records of a batch; `level` for gzip (0-9) and zstd (1-22), the others have one."""
    if codec is Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=_GZIP_LEVEL if level is None else level))
    if codec is Codec.SNAPPY:
        return _compress_xerial(data)
    if codec is Codec.LZ4:
        return _compress_lz4(data)
    if codec is Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))
    return bytes(data)


def decompress(
    codec: Codec, data: bytes | bytearray | memoryview, *, limit: int = MAX_UNCOMPRESSED_BYTES
) -> bytes | bytearray | memoryview:
    """Decompress the records of a batch; DecodeError on anything wrong and on more than `limit` bytes."""
    if codec is Codec.NONE:
        return data
    try:
        if codec is Codec.GZIP:
            return _decompress_gzip(data, limit)
        if codec is Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), limit)
        if codec is Codec.LZ4:
            return _decompress_into(cramjam.lz4.decompress_into, data, limit, codec)
        return _decompress_into(cramjam.zstd.decompress_into, data, limit, codec)
    except (cramjam.DecompressionError, zlib.error) as error:
        raise DecodeError(f"{codec.name.lower()} data of a record batch is damaged: {error}") from error


def _compress_xerial(data: bytes | bytearray | memoryview) -> bytes:
    pieces = [_XERIAL_HEADER]
    with memoryview(data) as view:
        for start in range(0, len(view), _XERIAL_CHUNK):
            chunk = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_CHUNK]))
            pieces += (_INT32.pack(len(chunk)), chunk)
    return b"".join(pieces)


def _compress_lz4(data: bytes | bytearray | memoryview) -> bytes:
    # cramjam's block compressor has one level, the fast one.
    block = bytearray(cramjam.lz4.compress_block_bound(bytes(_LZ4_BLOCK)))
    pieces: list[bytes | memoryview] = [_LZ4_HEADER]
    with memoryview(data) as view:
        for start in range(0, len(view), _LZ4_BLOCK):
            raw = view[start : start + _LZ4_BLOCK]
            size = cramjam.lz4.compress_block_into(raw, output=block, store_size=False)
            if size < len(raw):
                pieces += (_UINT32_LE.pack(size), bytes(memoryview(block)[:size]))
            else:
                pieces += (_UINT32_LE.pack(len(raw) | _LZ4_UNCOMPRESSED), raw)
        pieces.append(_LZ4_END)
        return b"".join(pieces)


def _decompress_gzip(data: bytes | bytearray | memoryview, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    # One byte above the limit is asked for, so that exactly `limit` is told from more.
    plain = stream.decompress(data, limit + 1)
    if len(plain) > limit:
        raise _too_large(Codec.GZIP, limit)
    if not stream.eof:
        raise DecodeError("gzip data of a record batch is damaged: it ends early")
    if stream.unused_data:
        raise DecodeError("gzip data of a record batch is followed by other bytes")
    return plain


def _decompress_snappy(view: memoryview, limit: int) -> bytes | bytearray:
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _raw_snappy(view, 0, limit)
    position, plain = len(_XERIAL_HEADER), bytearray()
    while position < len(view):
        if len(view) - position < _INT32.size:
            raise DecodeError("snappy data of a record batch is damaged: a chunk length is cut off")
        (size,) = _INT32.unpack_from(view, position)
        position += _INT32.size
        if not 0 <= size <= len(view) - position:
            raise DecodeError(f"snappy data of a record batch is damaged: chunk of {size} bytes")
        plain += _raw_snappy(view[position : position + size], len(plain), limit)
        position += size
    return plain


def _raw_snappy(view: memoryview, before: int, limit: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(view)
    # Snappy's densest element makes 64 bytes of 3, so a larger promise is a lie, caught before allocating.
    if before + size > limit:
        raise _too_large(Codec.SNAPPY, limit)
    if size > 64 * len(view):
        raise DecodeError(f"snappy data of a record batch is damaged: {size} bytes out of {len(view)}")
    return bytes(cramjam.snappy.decompress_raw(view))


def _decompress_into(
    decompress_into: DecompressInto, data: bytes | bytearray | memoryview, limit: int, codec: Codec
) -> memoryview:
    # Neither frame need say its size, and what it says may be a lie: the output grows up to the limit.
    size = min(limit, max(4 * len(data), 64 * 1024))
    while True:
        output = bytearray(size)
        try:
            return memoryview(output)[: decompress_into(data, output)]
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise
            if size >= limit:
                raise _too_large(codec, limit) from error
        size = min(limit, 4 * size)


def _too_large(codec: Codec, limit: int) -> DecodeError:
    return DecodeError(f"{codec.name.lower()} data of a record batch unpacks to more than {limit} bytes")
