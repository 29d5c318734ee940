"""The durable log between captures and the gateway: Kafka's segments, and a SQLite catalog beside them.

One commit is: append, sync the files touched, then one catalog transaction that moves every watermark and the
source position. What lies past a high watermark does not exist. See `Writer` and `LogReader`.
"""

from capture.log.catalog import CaptureRow, Catalog, PartitionRow, Topic
from capture.log.committed_offsets import CommittedOffset, CommittedOffsets
from capture.log.doorbell import Listener, Ringer, ring
from capture.log.errors import (
    CorruptLog,
    Fenced,
    LeaseHeld,
    LogError,
    LogFull,
    NewerFormat,
    NoLog,
    OffsetOutOfRange,
    TopicExists,
)
from capture.log.file_range import FileRange
from capture.log.partition_reader import PartitionReader
from capture.log.partition_writer import PartitionWriter
from capture.log.reader import LogReader
from capture.log.schemas import Schema, SchemaStore, SubjectVersion
from capture.log.store import Log
from capture.log.writer import Writer

__all__ = [
    "CaptureRow",
    "Catalog",
    "CommittedOffset",
    "CommittedOffsets",
    "CorruptLog",
    "Fenced",
    "FileRange",
    "LeaseHeld",
    "Listener",
    "Log",
    "LogError",
    "LogFull",
    "LogReader",
    "NewerFormat",
    "NoLog",
    "OffsetOutOfRange",
    "PartitionReader",
    "PartitionRow",
    "PartitionWriter",
    "Ringer",
    "Schema",
    "SchemaStore",
    "SubjectVersion",
    "Topic",
    "TopicExists",
    "Writer",
    "ring",
]
