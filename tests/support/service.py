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
    ) -> None:
        self.dsn = dsn
        self.data = data
        self.settings = dict(settings or {})
        self.arguments = list(arguments)
        self.environment = {"PYTHONPATH": str(ROOT), **(environment or {})}
        self.prefix = dsn.rsplit("/", 1)[1].partition("?")[0]
        self.kafka, self.registry, self.admin = free_addresses(3)
        self.errors = data.parent / f"{data.name}.stderr"
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

    def kill(self, role: str) -> None:
        """Kill -9 the workers of a role."""
        for pid in self.pids(role):
            os.kill(pid, signal.SIGKILL)

    def log(self) -> str:
        """Everything it has logged so far."""
        return self.errors.read_text(errors="replace")


class Parts:
    """Gateway and capture run apart, so that a test can kill and restart either at any moment."""

    def __init__(self, dsn: str, data: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.dsn = dsn
        self.data = data
        self.prefix = dsn.rsplit("/", 1)[1].partition("?")[0]
        self.settings = {"topic.prefix": self.prefix, **(settings or {})}
        self.kafka, self.registry, self.admin = free_addresses(3)
        self.errors = data.parent / f"{data.name}.stderr"
        self._environment = {"PYTHONPATH": str(ROOT)}
        self._configuration = data.parent / f"{data.name}.toml"
        self.running: dict[str, Process] = {}

    def __enter__(self) -> Parts:
        lines = [f"[capture.{self.prefix}]", *database_properties(self.dsn)]
        lines += [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in self.settings.items()]
        self._configuration.write_text("\n".join(lines) + "\n")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.running.values():
            process.end()
        self.running.clear()

    @property
    def registry_url(self) -> str:
        """The Schema Registry's URL."""
        return f"http://{self.registry}"

    def topic(self, table: str, schema: str = "public") -> str:
        """The topic of a table."""
        return f"{self.prefix}.{schema}.{table}"

    def start_gateway(self) -> Process:
        """Start `tidegate gateway` and wait until it answers."""
        command = tidegate("gateway", "--config", str(self._configuration), "--data", str(self.data))
        command += ["--kafka", self.kafka, "--registry", self.registry, "--admin", self.admin]
        process = self._start("gateway", command)
        process.event("ready", timeout_s=30)
        return process

    def start_capture(self) -> Process:
        """Start `tidegate capture`; it may still be connecting when this returns."""
        command = tidegate("capture", self.prefix, "--config", str(self._configuration))
        return self._start("capture", [*command, "--data", str(self.data)])

    def _start(self, role: str, command: list[str]) -> Process:
        process = Process(command, errors=self.errors, environment=self._environment)
        self.running[role] = process
        return process


def database_properties(dsn: str) -> list[str]:
    """TOML lines of Debezium's database.* properties for a URL of tests/support/postgres.py."""
    authority, name = dsn.removeprefix("postgresql://").split("/", 1)
    user, _, address = authority.rpartition("@")
    host, port = address.rsplit(":", 1)
    values = {"hostname": host, "port": port, "user": user, "dbname": name}
    return [f"{json.dumps('database.' + key)} = {json.dumps(value)}" for key, value in values.items()]


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
