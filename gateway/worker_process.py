"""A worker process as the supervisor holds it: its command line, its pipes, its end.

This module is imported before anything heavy, so that a gateway can be preloading (`start_held_gateway`)
while the databases are still being examined: it imports all it needs, and touches neither the data directory
nor a port before its arguments come by stdin.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.config import CaptureConfig, Config

EX_TEMPFAIL: Final = 75
HELD: Final = "--held"

_PR_SET_PDEATHSIG: Final = 1
_LINE_LIMIT: Final = 1 << 20


class WorkerProcess:
    """A child in a session of its own, which dies with us; its outputs are pipes, and so is its stdin."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=child_environment(),
            start_new_session=True,
            preexec_fn=dies_with(os.getpid()),
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def give(self, data: bytes) -> None:
        """Write all of its stdin and close it; a child that is gone already shows by its end."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(data)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it."""
        self._process.kill()

    def discard(self) -> None:
        """End one that was never given anything, and take back all that it holds."""
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            return
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    async def wait(self) -> int:
        """The exit code, negative for a signal. May be awaited by several at once."""
        import asyncio

        while (code := self._process.poll()) is None:
            try:
                descriptor = os.pidfd_open(self.pid)
            except (AttributeError, OSError):  # not Linux, or an old one
                return await asyncio.to_thread(self._process.wait)
            loop = asyncio.get_running_loop()
            ended = asyncio.Event()
            loop.add_reader(descriptor, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(descriptor)
                os.close(descriptor)
        return code

    def stdout_lines(self) -> AsyncIterator[str]:
        """Its standard output, line by line, until it closes it."""
        assert self._process.stdout is not None
        return _lines(self._process.stdout)

    def stderr_lines(self) -> AsyncIterator[str]:
        """Its standard error likewise."""
        assert self._process.stderr is not None
        return _lines(self._process.stderr)


async def _lines(pipe: IO[bytes]) -> AsyncIterator[str]:
    """The lines of a pipe; one beyond a megabyte is dropped."""
    import asyncio

    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LINE_LIMIT)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                continue
            if not line:
                return
            yield line.decode(errors="replace").rstrip("\r\n")
    finally:
        transport.close()


def start_held_gateway() -> WorkerProcess:
    """A gateway process that waits for its arguments (`held_arguments`), or for us to `discard` it."""
    return WorkerProcess([*_python_module("gateway"), HELD])


def gateway_command(config: Config) -> list[str]:
    """The command line of the gateway process; nothing in it is secret."""
    return [*_python_module("gateway"), *gateway_arguments(config)]


def gateway_arguments(config: Config) -> list[str]:
    """The arguments of the gateway process."""
    gateway = config.gateway
    arguments = ["--data", str(config.log.data)]
    for option in ("kafka", "registry", "admin"):
        arguments += [f"--{option}", str(getattr(gateway, option))]
    if gateway.advertised is not None:
        arguments += ["--advertised", str(gateway.advertised)]
    return arguments


def held_arguments(config: Config) -> bytes:
    """The arguments as a held gateway reads them."""
    return json.dumps(gateway_arguments(config)).encode() + b"\n"


def capture_command(name: str, data: Path) -> list[str]:
    """The command line of a capture's worker, which reads its options from stdin."""
    return [*_python_module("capture"), name, "--data", str(data), "--options-json", "-"]


def capture_stdin(capture: CaptureConfig) -> bytes:
    """A capture's properties as its worker reads them."""
    return json.dumps(dict(capture.properties)).encode() + b"\n"


def _python_module(module: str) -> list[str]:
    # -P keeps the current directory out of the way: it may hold a capture.py of somebody else's.
    return [sys.executable, "-P", "-m", module]


def child_environment() -> Mapping[str, str]:
    """Ours, with the folder of our own packages where they are not installed but run from their source."""
    root = str(Path(__file__).resolve().parent.parent)
    environment = dict(os.environ)
    if "site-packages" not in root and "dist-packages" not in root:
        paths = [root, *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment["PYTHONUNBUFFERED"] = "1"
    return environment


def dies_with(parent: int, death_signal: int = signal.SIGKILL) -> Callable[[], None] | None:
    """What a child does before its exec so that the kernel ends it when `parent` dies (Linux; else None).

    The child must be started by a thread that lives as long as the process: prctl(2) ties it to the thread.
    """
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        if os.getppid() != parent:  # it died between the fork and the line above
            os._exit(EX_TEMPFAIL)

    return prepare
