"""Runs the service: one gateway process and one worker process per capture, each restarted when it dies.

A worker is started with `python -m`; a capture's options go to it by stdin, so no secret stands in a
command line. Every worker is in a session of its own (a terminal's Ctrl-C reaches the supervisor alone,
which ends them in order) and dies with the supervisor (`gateway.worker_process`).

Which end of a worker is final: of a capture, any exit but by a signal or with 75 (EX_TEMPFAIL), for then
trying again cannot help; of the gateway, an exit before it was ever ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final, Protocol

from gateway.config import Address, Config, without_passwords
from gateway.worker_process import (
    EX_TEMPFAIL,
    WorkerProcess,
    capture_command,
    capture_stdin,
    gateway_command,
    held_arguments,
)

GATEWAY: Final = "gateway"

_STEADY_S: Final = 60.0
_TAIL_LINES: Final = 50


class SupervisorError(Exception):
    """The service cannot run: the gateway could not start."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the gateway answers, as it said itself."""

    kafka: str
    registry: str
    admin: str


class Reporter(Protocol):
    """What a service tells about itself while it runs; one for people, one for programs."""

    def ready(self, endpoints: Endpoints) -> None:
        """The gateway answers."""

    def log_line(self, worker: str, line: str) -> None:
        """A worker wrote a line to its log."""

    def ended(self, worker: str, sentence: str, retry_in_s: float | None) -> None:
        """A worker ended without being asked to; it comes back after `retry_in_s`, or never (None)."""

    def finished(self, worker: str) -> None:
        """A capture did all it was asked to (snapshot.mode=initial_only) and ended."""

    def recovered(self, worker: str) -> None:
        """A worker that had ended was started again."""


@dataclass
class Worker:
    """One child process as it comes and goes."""

    name: str
    command: list[str]
    stdin: bytes = b""
    process: WorkerProcess | None = None
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL_LINES))
    was_ready: bool = False
    failure: str | None = None

    @property
    def is_gateway(self) -> bool:
        """Whether this is the gateway and not a capture."""
        return self.name == GATEWAY


class Supervisor:
    """Starts everything, keeps it running until `stop` is called, then ends it in order."""

    def __init__(self, config: Config, reporter: Reporter, *, held: WorkerProcess | None = None) -> None:
        """`held` is a preloaded gateway (`start_held_gateway`) to be used for the gateway's first life."""
        self.config = config
        self.endpoints: Endpoints | None = None
        self.failures: dict[str, str] = {}
        self._reporter = reporter
        self._stop = asyncio.Event()
        self._ready = asyncio.Event()
        self._workers: list[Worker] = []
        self._held = held

    def stop(self) -> None:
        """End the service; `run` returns when every process is gone."""
        self._stop.set()

    async def ready(self) -> Endpoints:
        """Wait for the gateway to answer."""
        await self._ready.wait()
        assert self.endpoints is not None
        return self.endpoints

    async def run(self) -> None:
        """Run until `stop`; raises SupervisorError when the gateway cannot start."""
        self._workers = [
            Worker(GATEWAY, gateway_command(self.config)),
            *(
                Worker(
                    capture.name, capture_command(capture.name, self.config.log.data), capture_stdin(capture)
                )
                for capture in self.config.captures
            ),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                for worker in self._workers:
                    group.create_task(self._keep(worker))
                group.create_task(self._end_when_stopped())
        except* SupervisorError as errors:
            raise errors.exceptions[0] from None
        finally:
            self._stop.set()
            await self._end_workers()

    async def _end_when_stopped(self) -> None:
        await self._stop.wait()
        await self._end_workers()

    async def _keep(self, worker: Worker) -> None:
        """Start a worker again and again until it ends for good or the service stops."""
        backoff_s = self.config.supervisor.restart_backoff_ms / 1000
        while not self._stop.is_set():
            started = time.monotonic()
            code = await self._run_once(worker)
            if self._stop.is_set():
                return
            if code == 0 and not worker.is_gateway:
                self._reporter.finished(worker.name)
                return
            sentence = self._sentence(worker, code)
            if self._is_final(worker, code):
                worker.failure = self.failures[worker.name] = sentence
                self._reporter.ended(worker.name, sentence, None)
                if worker.is_gateway:
                    raise SupervisorError(f"the gateway did not start: {sentence}")
                return
            if time.monotonic() - started > _STEADY_S:
                backoff_s = self.config.supervisor.restart_backoff_ms / 1000
            self._reporter.ended(worker.name, sentence, backoff_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), backoff_s)
                return
            backoff_s = min(backoff_s * 2, self.config.supervisor.restart_backoff_max_ms / 1000)
            self._reporter.recovered(worker.name)

    @staticmethod
    def _is_final(worker: Worker, code: int) -> bool:
        if worker.is_gateway:
            return not worker.was_ready and code >= 0
        return code >= 0 and code != EX_TEMPFAIL

    @staticmethod
    def _sentence(worker: Worker, code: int) -> str:
        """Why a worker ended: the last thing it said, else what the exit code says."""
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        for line in reversed(worker.tail):
            if line.strip():
                return without_passwords(_message(line))
        return f"ended with exit code {code}"

    async def _run_once(self, worker: Worker) -> int:
        """One life of a worker; returns its exit code, negative for a signal."""
        worker.tail.clear()
        process = self._start(worker)
        if self._stop.is_set():
            process.terminate()
        readers = [
            asyncio.create_task(self._read_stdout(worker, process)),
            asyncio.create_task(self._read_stderr(worker, process)),
        ]
        code = await process.wait()
        await asyncio.wait(readers, timeout=1)
        for reader in readers:
            reader.cancel()
        worker.process = None
        return code

    def _start(self, worker: Worker) -> WorkerProcess:
        if worker.is_gateway and self._held is not None:
            process, self._held = self._held, None
            process.give(held_arguments(self.config))
        else:
            process = WorkerProcess(self._command(worker))
            process.give(worker.stdin)
        worker.process = process
        return process

    def _command(self, worker: Worker) -> list[str]:
        """A gateway that comes back listens where it listened before, though its ports were ephemeral."""
        if worker.is_gateway and self.endpoints is not None:
            command = list(worker.command)
            for option in ("kafka", "registry", "admin"):
                command[command.index(f"--{option}") + 1] = getattr(self.endpoints, option)
            return command
        return worker.command

    async def _read_stdout(self, worker: Worker, process: WorkerProcess) -> None:
        async for line in process.stdout_lines():
            endpoints = _ready_line(line) if worker.is_gateway else None
            if endpoints is None:
                self._reporter.log_line(worker.name, line)
                continue
            worker.was_ready = True
            if self.endpoints is None:
                self.endpoints = endpoints
                self._reporter.ready(endpoints)
                self._ready.set()

    async def _read_stderr(self, worker: Worker, process: WorkerProcess) -> None:
        async for line in process.stderr_lines():
            worker.tail.append(line)
            self._reporter.log_line(worker.name, line)

    async def _end_workers(self) -> None:
        """TERM to the captures, then to the gateway, so that the last changes are still served; then KILL."""
        timeout_s = self.config.supervisor.stop_timeout_ms / 1000
        for group in (self._workers[1:], self._workers[:1]):
            processes = [worker.process for worker in group if worker.process is not None]
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
            waits = [asyncio.create_task(process.wait()) for process in processes]
            if waits:
                _, late = await asyncio.wait(waits, timeout=timeout_s)
                if late:
                    for process in processes:
                        with contextlib.suppress(ProcessLookupError):
                            process.kill()
                    await asyncio.wait(late)


def _message(line: str) -> str:
    """The sentence of a log line, be it JSON with a message or plain text."""
    if line.startswith("{"):
        with contextlib.suppress(ValueError):
            record = json.loads(line)
            for key in ("error", "message", "msg", "event"):
                if isinstance(record.get(key), str):
                    return str(record[key])
    return line.strip()


def _ready_line(line: str) -> Endpoints | None:
    if not line.startswith("{"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or record.get("ready") is not True:
        return None
    return Endpoints(*(str(Address.parse(str(record[key]))) for key in ("kafka", "registry", "admin")))
