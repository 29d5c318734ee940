"""A program of ours or of others run beside a test: its JSON lines read as they come, its end by its pid."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

_END_S = 20.0


class ProcessFailed(Exception):
    """The program ended or stayed silent where it should not have; holds what it said."""


class Process:
    """One subprocess; standard output is kept whole and line by line, standard error goes to a file."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        errors: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = list(command)
        self.errors = errors
        self.output = bytearray()
        self.lines: list[str] = []
        self._said = threading.Condition()
        self._closed = False
        with errors.open("ab") as sink:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=sink,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def returncode(self) -> int | None:
        """The exit code, None while it runs."""
        return self._process.poll()

    def until(self, what: str, found: Callable[[list[str]], Any], *, timeout_s: float = 60.0) -> Any:
        """Wait until `found(lines)` is neither None nor False and return it; ProcessFailed otherwise."""
        deadline = time.monotonic() + timeout_s
        with self._said:
            while True:
                result = found(self.lines)
                if result is not None and result is not False:
                    return result
                if self._closed or time.monotonic() > deadline:
                    break
                self._said.wait(0.2)
        state = f"ended with {self._process.poll()}" if self._closed else f"silent for {timeout_s} s"
        raise ProcessFailed(f"{what}: {self.command[:4]} {state}\n{self.said()}")

    def event(self, name: str, *, timeout_s: float = 60.0) -> dict[str, Any]:
        """The first JSON line that is the event `name` ({"event": name, …} or {name: true, …})."""

        def found(lines: list[str]) -> dict[str, Any] | None:
            for line in lines:
                with contextlib.suppress(json.JSONDecodeError):
                    value = json.loads(line)
                    if isinstance(value, dict) and (value.get("event") == name or value.get(name) is True):
                        return value
            return None

        result: dict[str, Any] = self.until(f"no {name!r} line", found, timeout_s=timeout_s)
        return result

    def wait(self, timeout_s: float = 60.0) -> int:
        """Wait for the end and return the exit code."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise ProcessFailed(f"{self.command[:4]} runs on after {timeout_s} s\n{self.said()}") from error
        self._reader.join(5)
        return code

    def kill(self) -> None:
        """Kill -9, and nothing else."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._process.wait(_END_S)
        self._reader.join(5)

    def end(self, *, timeout_s: float = _END_S) -> int:
        """Ask it to end (SIGTERM), kill what does not; its children go with it. Returns the exit code."""
        children = self.children()
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(_END_S)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        self._reader.join(5)
        return self._process.returncode

    def children(self) -> list[psutil.Process]:
        """The processes that it started, and theirs."""
        try:
            found: list[psutil.Process] = psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return found

    def said(self) -> str:
        """The ends of both outputs, for an error message."""
        text = self.errors.read_text(errors="replace")[-4000:]
        return "stdout:\n" + "\n".join(self.lines[-20:]) + f"\nstderr ({self.errors.name}):\n{text}"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._said:
                self.output += line
                self.lines.append(line.decode(errors="replace").rstrip("\n"))
                self._said.notify_all()
        with self._said:
            self._closed = True
            self._said.notify_all()
        self._process.stdout.close()


def tidegate(*arguments: str) -> list[str]:
    """The command line of `tidegate …` under this interpreter, installed or not."""
    return [sys.executable, "-c", "from gateway.cli import main; main()", *arguments]
