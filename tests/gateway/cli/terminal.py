"""A program on a pseudo-terminal, as a person would start it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Sequence

from tests.support.service import ROOT


class Terminal:
    """The program; `shown` is what it has shown so far, without escape sequences."""

    def __init__(self, command: Sequence[str]) -> None:
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "160"},
            cwd=ROOT,
            # Its controlling terminal, so that ^C is a signal to it.
            preexec_fn=_take_terminal,
        )
        os.close(slave)
        self.shown = ""

    def read_until(self, text: str, *, timeout_s: float = 60.0) -> str:
        """What it showed, once `text` is among it; escape sequences are left out."""
        deadline = time.monotonic() + timeout_s
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._master], [], [], 0.2)[0]:
                self.shown += self._read()
        return self.shown

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def wait(self, timeout_s: float = 30.0) -> int:
        """Its exit code; what it still shows is taken in."""
        deadline = time.monotonic() + timeout_s
        while self._process.poll() is None:
            assert time.monotonic() < deadline, self.shown
            if select.select([self._master], [], [], 0.1)[0]:
                self.shown += self._read()
        return self._process.returncode

    def close(self) -> None:
        """Kill what still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._master)

    def _read(self) -> str:
        try:
            data = os.read(self._master, 65536)
        except OSError:  # EIO: the other side is closed
            time.sleep(0.05)
            return ""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", data.decode(errors="replace"))


def _take_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
