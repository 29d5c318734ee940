"""The header of a RecordBatch v2: read, checked, built and stamped, without a look at the records."""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from protocol.errors import DecodeError
from protocol.records.compression import Codec, compress

HEADER_SIZE: Final = 61
MAGIC: Final = 2
NO_TIMESTAMP: Final = -1
# What `batch_length` does not count: base_offset and itself.
LENGTH_PREFIX: Final = 12
# The CRC covers the bytes from `attributes` to the end of the batch.
CRC_START: Final = 21

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

_HEADER: Final = Struct(">qiibIhiqqqhii")
_COVERED: Final = Struct(">hiqqqhii")
_PREFIX: Final = Struct(">qiibI")
_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")


class BatchHeader(NamedTuple):
    """The 61 bytes before the records; timestamps in milliseconds since 1970, -1 where there is none."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch in bytes, header included."""
        return LENGTH_PREFIX + self.batch_length

    @property
    def last_offset(self) -> int:
        """The offset of the last record (of a compacted batch: of the last that it once held)."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> Codec:
        """How the records are compressed; raises DecodeError for a number Kafka does not define."""
        number = self.attributes & CODEC_MASK
        try:
            return Codec(number)
        except ValueError:
            raise DecodeError(f"record batch at offset {self.base_offset}: unknown codec {number}") from None


def read_header(view: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Read the header at `position`; raise DecodeError if it cannot be the start of a RecordBatch v2.

    The batch itself may run past the end of `view`: compare `size_bytes` where that matters.
    """
    if position < 0 or len(view) - position < HEADER_SIZE:
        raise DecodeError(f"record batch header at byte {position} runs past the end ({len(view)} bytes)")
    header = BatchHeader._make(_HEADER.unpack_from(view, position))
    if header.magic != MAGIC:
        raise DecodeError(f"record batch at byte {position}: magic {header.magic}, only 2 is known")
    if header.batch_length < HEADER_SIZE - LENGTH_PREFIX:
        raise DecodeError(f"record batch at byte {position}: impossible length {header.batch_length}")
    if header.last_offset_delta < 0 or header.record_count < 0 or header.base_offset < 0:
        raise DecodeError(f"record batch at byte {position}: negative offset or record count")
    return header


def batches(
    view: bytes | bytearray | memoryview, *, allow_partial: bool = False
) -> Iterator[tuple[int, BatchHeader]]:
    """Walk the batches of `view`, giving each one's position and header.

    A batch cut off by the end of `view` is a DecodeError, or with `allow_partial` (a Fetch answer of a broker
    that cuts at max_bytes) the end of the walk.
    """
    position, end = 0, len(view)
    while position < end:
        if allow_partial and end - position < HEADER_SIZE:
            return
        header = read_header(view, position)
        following = position + header.size_bytes
        if following > end:
            if allow_partial:
                return
            raise DecodeError(f"record batch at byte {position} runs past the end ({following} > {end})")
        yield position, header
        position = following


def check_crc(view: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Compare the CRC32C of the batch at `position`; DecodeError if it differs or the batch is cut off."""
    header = read_header(view, position)
    end = position + header.size_bytes
    if end > len(view):
        raise DecodeError(f"record batch at byte {position} runs past the end ({end} > {len(view)})")
    with memoryview(view) as whole, whole[position + CRC_START : end] as covered:
        actual = crc32c(covered)
    if actual != header.crc:
        raise DecodeError(
            f"record batch at byte {position} (offset {header.base_offset}): "
            f"CRC32C is {actual:#010x}, its header says {header.crc:#010x}"
        )
    return header


def finish(
    payload: bytes | bytearray | memoryview,
    *,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    last_offset_delta: int | None = None,
    attributes: int = 0,
) -> bytearray:
    """Put a header around encoded, uncompressed records: base_offset 0, epoch 0, no producer.

    `level` is the codec's own, None its default. `last_offset_delta` is record_count - 1 unless given.
    """
    body = payload if codec is Codec.NONE else compress(codec, payload, level=level)
    # Appended, not assigned into zeros: that is forty times as fast for a batch of 256 KiB.
    batch = bytearray(HEADER_SIZE)
    batch += body
    _COVERED.pack_into(
        batch,
        CRC_START,
        attributes | codec,
        record_count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        -1,
        -1,
        -1,
        record_count,
    )
    with memoryview(batch) as whole, whole[CRC_START:] as covered:
        checksum = crc32c(covered)
    _PREFIX.pack_into(batch, 0, 0, len(batch) - LENGTH_PREFIX, 0, MAGIC, checksum)
    return batch


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write base_offset and partition_leader_epoch, which stand outside the CRC, into a finished batch."""
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, LENGTH_PREFIX, leader_epoch)
