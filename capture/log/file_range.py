"""Records as a range of a file, for the kernel to send from the page cache without mapping them."""

import os
from collections.abc import Callable
from pathlib import Path

WORTH_BYTES = 128 * 1024
"""From this size on a reader gives ranges: the kernel sends them without copying or faulting in a page."""


class SegmentFile:
    """A segment's file, open for as long as anyone holds this."""

    __slots__ = ("descriptor",)

    def __init__(self, path: Path) -> None:
        """Raises FileNotFoundError where retention took the file."""
        self.descriptor = -1
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read_late(self, position: int, length: int, wanted_from: int) -> bytes:
        """Read `length` bytes of which all from `wanted_from` on will be wanted next.

        Where they are not in memory the kernel is asked to fetch all of it at once, so that sending it waits
        for the disk as little as may be.
        """
        buffer = bytearray(length)
        try:
            if os.preadv(self.descriptor, [buffer], position, os.RWF_NOWAIT) == length:
                return bytes(buffer)
        except OSError:
            # Not in memory, or a file system without RWF_NOWAIT.
            pass
        self.will_need(wanted_from, position + length - wanted_from)
        return os.pread(self.descriptor, length, position)

    def will_need(self, position: int, length: int) -> None:
        """Let the kernel fetch this part of the file in the background, if it is not in memory."""
        os.posix_fadvise(self.descriptor, position, length, os.POSIX_FADV_WILLNEED)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


class FileRange:
    """Whole batches at `position` of a file, valid while it is held, whatever becomes of the segment."""

    __slots__ = ("_touch", "_view", "file", "position")

    def __init__(
        self, file: SegmentFile, position: int, view: memoryview, touch: Callable[[int, int], None]
    ) -> None:
        """`touch` is told of the bytes from one position to another that are about to be used in memory."""
        self.file = file
        self.position = position
        self._view = view
        self._touch = touch

    def __len__(self) -> int:
        return len(self._view)

    @property
    def view(self) -> memoryview:
        """The same bytes in memory."""
        self._touch(self.position, self.position + len(self._view))
        return self._view
