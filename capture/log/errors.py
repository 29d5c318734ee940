"""What can go wrong with the log. Every message says what failed, where, and what to do."""

import errno
import os
from pathlib import Path
from typing import Final

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class LogError(Exception):
    """The log cannot do what was asked. `retry_may_help` tells a supervisor whether to try again."""

    retry_may_help = False


class NoLog(LogError):
    """There is no log in the data directory."""


class NewerFormat(LogError):
    """The data directory was written by a version with a newer format."""


class LogFull(LogError):
    """No space left (or a quota or file size limit was reached). What was committed stays readable."""

    retry_may_help = True


class CorruptLog(LogError):
    """Committed bytes are damaged: `path` and the byte `position` in it."""

    def __init__(self, path: Path, position: int, problem: str) -> None:
        super().__init__(
            f"{path} is damaged at byte {position}: {problem}. These records were committed, so they are not "
            f"cut off. Restore the file from a backup of the data directory, or move the data directory away "
            f"and capture anew; check the disk first"
        )
        self.path = path
        self.position = position


class LeaseHeld(LogError):
    """Another process on this host writes this capture."""

    retry_may_help = True


class Fenced(LogError):
    """A newer writer of the same capture took over; this one must stop."""


class TopicExists(LogError):
    """A topic of this name belongs to another capture."""


class OffsetOutOfRange(LogError):
    """No record at `offset`: below the log start, or above the high watermark."""

    def __init__(self, offset: int, log_start_offset: int, high_watermark: int) -> None:
        super().__init__(f"offset {offset} is not within {log_start_offset} and {high_watermark}")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.high_watermark = high_watermark


def storage_error(error: OSError, failed: str, path: Path) -> LogError:
    """Say in a LogError what the operating system refused; LogFull where it is space that lacks."""
    if error.errno in _NO_SPACE:
        return LogFull(
            f"{failed} {path}: {os.strerror(error.errno or 0).lower()}. Free space on that file system, "
            f"raise the quota, or set retention.ms or retention.bytes; what was committed stays readable"
        )
    return LogError(
        f"{failed} {path}: {error.strerror or error}. Check the disk and the permissions of the data "
        f"directory"
    )
