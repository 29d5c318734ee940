"""An event that a poll of sockets can wait for."""

from __future__ import annotations

import contextlib
import os
import select


class Wake:
    """Set from any thread or signal handler; seen by whoever waits, also while they wait for a socket."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._reading, select.POLLIN)
        self._set = False

    def is_set(self) -> bool:
        """Whether it was set since it was last cleared."""
        return self._set

    def set(self) -> None:
        """Wake whoever waits now, or the next one who does."""
        self._set = True
        with contextlib.suppress(BlockingIOError):
            os.write(self._writing, b"\0")

    def clear(self) -> None:
        """Forget what was set so far."""
        self._set = False
        with contextlib.suppress(BlockingIOError):
            while os.read(self._reading, 4096):
                pass

    def wait(self, timeout_s: float) -> bool:
        """Wait for `set`; whether it came in time. Does not clear."""
        return bool(self._poll.poll(max(0.0, timeout_s) * 1000))

    def wait_for(self, descriptor: int, timeout_s: float, *, writable: bool = False) -> bool:
        """Wait until a descriptor is readable (or also writable) or until woken; False after the timeout."""
        self._poll.register(descriptor, select.POLLIN | (select.POLLOUT if writable else 0))
        try:
            return bool(self._poll.poll(max(0.0, timeout_s) * 1000))
        finally:
            self._poll.unregister(descriptor)

    def close(self) -> None:
        """Free the descriptors; nobody may wait or set any more."""
        os.close(self._reading)
        os.close(self._writing)
