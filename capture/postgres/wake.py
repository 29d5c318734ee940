"""An event that a poll of sockets can wait for."""

from __future__ import annotations

import contextlib
import os
import select


class Wake:
    """Set from any thread or signal handler; seen by whoever waits, also while they wait for a socket."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
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
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        return bool(poll.poll(max(0.0, timeout_s) * 1000))

    def wait_for(self, descriptor: int, timeout_s: float) -> bool:
        """Wait until a descriptor is readable or until woken; False after the timeout."""
        poll = select.poll()  # one poll object must not be used by two threads at once
        poll.register(self._reading, select.POLLIN)
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(max(0.0, timeout_s) * 1000))

    def close(self) -> None:
        """Free the descriptors; nobody may wait or set any more."""
        os.close(self._reading)
        os.close(self._writing)
