"""Tidegate itself as a test sees it: `tidegate serve`, or gateway and capture apart, each a subprocess."""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from tests.support.process import Process, ProcessFailed, tidegate

ROOT = Path(__file__).resolve().parents[2]


class Service:
    """`tidegate serve` on one database; ports are chosen once, so they are the same after a restart.

    `settings` are capture properties by Debezium's names; `arguments` go to the command line as they are.
    """

    def __init__(
        self,
        dsn: str,
        data: Path,
        *,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        errors: Path | None = None,
    ) -> None:
        self.dsn = dsn
        self.data = data
        self.prefix = dsn.rsplit("/", 1)[1].partition("?")[0]
        # Slots are the whole server's, and tests share a server.
        self.settings = {"slot.name": self.prefix, **(settings or {})}
        self.arguments = list(arguments)
        self.environment = {"PYTHONPATH": str(ROOT), **(environment or {})}
        self.kafka, self.registry, self.admin = free_addresses(3)
        self.errors = errors or data.parent / f"{data.name}.stderr"
        self.process: Process | None = None
        self.ready: dict[str, Any] = {}

    def __enter__(self) -> Service:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def registry_url(self) -> str:
        """The Schema Registry's URL."""
        return f"http://{self.registry}"

    def topic(self, table: str, schema: str = "public") -> str:
        """The topic of a table."""
        return f"{self.prefix}.{schema}.{table}"

    def start(self, *, timeout_s: float = 60.0) -> float:
        """Start it and wait for the ready line; returns the seconds from start to ready."""
        command = tidegate("serve", "--json", "--postgres", self.dsn, "--data", str(self.data))
        command += ["--kafka", self.kafka, "--registry", self.registry, "--admin", self.admin]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        begun = time.monotonic()
        self.process = Process([*command, *self.arguments], errors=self.errors, environment=self.environment)
        try:
            self.ready = self.process.event("ready", timeout_s=timeout_s)
        except ProcessFailed:
            self.process.end()
            raise
        return time.monotonic() - begun

    def stop(self, *, timeout_s: float = 20.0) -> int:
        """End it in order and return the exit code (0 where it did not run)."""
        if self.process is None:
            return 0
        code = self.process.end(timeout_s=timeout_s)
        self.process = None
        return code

    def pids(self, role: str) -> list[int]:
        """The worker processes of a role: "gateway" or "capture"."""
        assert self.process is not None
        found = []
        for child in self.process.children():
            try:
                arguments = child.cmdline()
            except psutil.Error:
                continue
            if role in arguments[:4] or any(part == f"{role}.__main__" for part in arguments):
                found.append(child.pid)
        return found

    def kill(self, role: str) -> int:
        """Kill -9 the workers of a role; returns how many there were."""
        found = self.pids(role)
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return len(found)

    def log(self) -> str:
        """Everything it has logged so far."""
        return self.errors.read_text(errors="replace")


class Parts:
    """Gateway and capture run apart, by `tidegate gateway` and `tidegate capture NAME`."""

    def __init__(self, dsn: str, data: Path) -> None:
        self.dsn = dsn
        self.data = data
        self.prefix = dsn.rsplit("/", 1)[1].partition("?")[0]
        self.kafka, self.registry, self.admin = free_addresses(3)
        self.errors = data.parent / f"{data.name}.stderr"
        self._configuration = data.parent / f"{data.name}.toml"
        self._running: list[Process] = []

    def __enter__(self) -> Parts:
        table = [f"[capture.{self.prefix}]", f"postgres = {json.dumps(self.dsn)}"]
        self._configuration.write_text("\n".join([*table, f"slot.name = {json.dumps(self.prefix)}", ""]))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running:
            process.end()

    @property
    def registry_url(self) -> str:
        """The Schema Registry's URL."""
        return f"http://{self.registry}"

    def topic(self, table: str, schema: str = "public") -> str:
        """The topic of a table."""
        return f"{self.prefix}.{schema}.{table}"

    def start_gateway(self) -> Process:
        """Start the gateway and wait until it answers."""
        addresses = ["--kafka", self.kafka, "--registry", self.registry, "--admin", self.admin]
        process = self._start("gateway", "--data", str(self.data), *addresses)
        process.event("ready", timeout_s=30)
        return process

    def start_capture(self) -> Process:
        """Start the capture; it may still be connecting when this returns."""
        options = ["--config", str(self._configuration), "--data", str(self.data)]
        return self._start("capture", self.prefix, *options)

    def _start(self, *arguments: str) -> Process:
        process = Process(tidegate(*arguments), errors=self.errors, environment={"PYTHONPATH": str(ROOT)})
        self._running.append(process)
        return process


def free_addresses(count: int) -> list[str]:
    """Different 127.0.0.1:PORT addresses that nothing listens on now."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def data_folder() -> tempfile.TemporaryDirectory[str]:
    """A fresh folder; the service's data goes into its subfolder `data`."""
    return tempfile.TemporaryDirectory(prefix="tidegate-test-", ignore_cleanup_errors=True)
