"""Where things stand in the data directory: names of folders, segment files and locks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

CATALOG: Final = "catalog.sqlite"
GROUPS: Final = "groups.sqlite"
TOPICS: Final = "topics"
DOORBELLS: Final = "doorbells"
LOCKS: Final = "locks"
STATUS: Final = "status"

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)

# Kafka's own limit of a topic name (org.apache.kafka.common.internals.Topic).
MAX_TOPIC_NAME: Final = 249
_LEGAL: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_topic_name(name: str) -> None:
    """Hold a topic name to Kafka's rules (it names a folder too); raise ValueError saying what is wrong."""
    if not name or name in (".", ".."):
        raise ValueError(f"{name!r} is no topic name")
    if len(name) > MAX_TOPIC_NAME:
        raise ValueError(f"topic name {name!r} has {len(name)} characters; Kafka allows {MAX_TOPIC_NAME}")
    if not _LEGAL.issuperset(name):
        wrong = "".join(sorted(set(name) - _LEGAL))
        raise ValueError(
            f"topic name {name!r} holds {wrong!r}; Kafka allows letters, digits, '.', '_' and '-'"
        )


def partition_folder(data: Path, topic: str, index: int) -> Path:
    """The folder of a partition's segments, named as Kafka names it."""
    return data / TOPICS / f"{topic}-{index}"


def segment_path(folder: Path, base_offset: int, suffix: str = LOG_SUFFIX) -> Path:
    """A segment's file: its base offset in 20 digits and the suffix."""
    return folder / f"{base_offset:020d}{suffix}"


def segment_base_offsets(folder: Path) -> list[int]:
    """The base offsets of the segments in `folder`, ascending; none where there is no folder."""
    try:
        names = [name for name in _names(folder) if name.endswith(LOG_SUFFIX)]
    except FileNotFoundError:
        return []
    return sorted(int(name[:20]) for name in names if len(name) == 24 and name[:20].isdigit())


def lock_path(data: Path, kind: str, name: str) -> Path:
    """The lock file of a thing with any name at all."""
    return data / LOCKS / f"{kind}-{quote(name, safe='')}.lock"


def _names(folder: Path) -> Iterator[str]:
    return (path.name for path in folder.iterdir())
