"""RecordBatch v2, the unit of the log and of a Fetch: headers walked and checked, records read and built.

Layout: Kafka's "Message Format" documentation (KIP-98); a batch is a 61-byte header and its records, of which
everything from `attributes` on is covered by a CRC32C and everything after the header may be compressed.
Offsets and the leader epoch stand before the CRC, so a log stamps them into a finished batch.
"""

from protocol.errors import DecodeError
from protocol.records.batch import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    batches,
    check_crc,
    finish,
    read_header,
    stamp,
)
from protocol.records.compression import MAX_UNCOMPRESSED_BYTES, Codec, compress, decompress
from protocol.records.record import Record, build, encode_record, records

__all__ = [
    "HEADER_SIZE",
    "MAX_UNCOMPRESSED_BYTES",
    "NO_TIMESTAMP",
    "BatchHeader",
    "Codec",
    "DecodeError",
    "Record",
    "batches",
    "build",
    "check_crc",
    "compress",
    "decompress",
    "encode_record",
    "finish",
    "read_header",
    "records",
    "stamp",
]
