"""A capture's options in Debezium's own vocabulary: where they are written, checked and typed."""

from capture.options.capture_options import (
    CaptureOptions,
    ConnectionOptions,
    PublicationOptions,
    SlotOptions,
    SnapshotOptions,
)
from capture.options.filters import KeyRules, NameFilter, NameList, TableFilter
from capture.options.properties import OptionError, known_names
from capture.options.sources import from_url, read_file, read_json, read_properties

__all__ = [
    "CaptureOptions",
    "ConnectionOptions",
    "KeyRules",
    "NameFilter",
    "NameList",
    "OptionError",
    "PublicationOptions",
    "SlotOptions",
    "SnapshotOptions",
    "TableFilter",
    "from_url",
    "known_names",
    "read_file",
    "read_json",
    "read_properties",
]
