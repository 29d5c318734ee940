"""The supervisor over real child processes: small scripts stand in for the gateway and the captures."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from gateway import supervisor, worker_process
from gateway.config import Address, CaptureConfig, Config, GatewayConfig, LogConfig, SupervisorConfig
from gateway.supervisor import Endpoints, Supervisor, SupervisorError

READY = {"ready": True, "kafka": "127.0.0.1:19092", "registry": "127.0.0.1:18081", "admin": "127.0.0.1:19644"}
SERVE = f"print({json.dumps(json.dumps(READY))}, flush=True); import signal; signal.pause()"
LOOPBACK = Address("127.0.0.1", 0)
ANYWHERE = GatewayConfig(kafka=LOOPBACK, registry=LOOPBACK, admin=LOOPBACK)
STREAM = "import signal; signal.pause()"


class Recorder:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []
        self.lines: list[tuple[str, str]] = []
        self._changed = asyncio.Event()

    async def until(self, said: Callable[[], bool]) -> None:
        """Wait until a condition holds, looking at it whenever something was reported."""
        while not said():
            self._changed.clear()
            await self._changed.wait()

    def ready(self, endpoints: Endpoints) -> None:
        self._changed.set()
        self.events.append(("ready", endpoints.kafka))

    def log_line(self, worker: str, line: str) -> None:
        self._changed.set()
        self.lines.append((worker, line))

    def ended(self, worker: str, sentence: str, retry_in_s: float | None) -> None:
        self._changed.set()
        self.events.append(("ended", worker, sentence, retry_in_s is not None))

    def finished(self, worker: str) -> None:
        self._changed.set()
        self.events.append(("finished", worker))

    def recovered(self, worker: str) -> None:
        self._changed.set()
        self.events.append(("recovered", worker))


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What each worker runs, by its name; "gateway" is the gateway's."""
    chosen = {"gateway": SERVE}

    def gateway_command(config: Config) -> list[str]:
        addresses = ["--kafka", "127.0.0.1:0", "--registry", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        return [sys.executable, "-c", chosen["gateway"], *addresses]

    def capture_command(name: str, data: Path) -> list[str]:
        return [sys.executable, "-c", chosen[name], name]

    monkeypatch.setattr(supervisor, "gateway_command", gateway_command)
    monkeypatch.setattr(supervisor, "capture_command", capture_command)
    return chosen


def config(tmp_path: Path, *names: str, **times: int) -> Config:
    captures = tuple(CaptureConfig(name=name, properties={"database.password": "hush"}) for name in names)
    limits = SupervisorConfig(**{"restart_backoff_ms": 10, "restart_backoff_max_ms": 40, **times})
    return Config(log=LogConfig(data=tmp_path), supervisor=limits, captures=captures)


def supervise(
    configured: Config, until: Callable[[Supervisor, Recorder], Awaitable[None]]
) -> tuple[Recorder, list[psutil.Process]]:
    """Run the service until `until` returns; all its processes must be gone then."""
    recorder = Recorder()
    seen: list[psutil.Process] = []

    async def run() -> None:
        service = Supervisor(configured, recorder)

        async def drive() -> None:
            try:
                async with asyncio.timeout(20):
                    await until(service, recorder)
            finally:
                seen.extend(psutil.Process().children())
                service.stop()

        driving = asyncio.create_task(drive())
        try:
            await service.run()
        finally:
            driving.cancel()
            results = await asyncio.gather(driving, return_exceptions=True)
        if isinstance(results[0], Exception):
            raise results[0]

    asyncio.run(run())
    assert [process for process in seen if process.is_running()] == []
    return recorder, seen


async def event(recorder: Recorder, *wanted: object) -> None:
    """Wait until an event that begins with `wanted` came."""
    await recorder.until(lambda: any(each[: len(wanted)] == wanted for each in recorder.events))


def test_everything_runs_until_it_is_stopped(tmp_path: Path, scripts: dict[str, str]) -> None:
    scripts["shop"] = f"import sys; print(sys.stdin.read(), file=sys.stderr, flush=True); {STREAM}"
    options = ("shop", '{"database.password": "hush"}')
    arguments: list[str] = []

    async def until(service: Supervisor, recorder: Recorder) -> None:
        assert (await service.ready()).registry == "127.0.0.1:18081"
        await recorder.until(lambda: options in recorder.lines)
        for child in psutil.Process().children():
            arguments.extend(child.cmdline())

    recorder, seen = supervise(config(tmp_path, "shop"), until)
    assert recorder.events == [("ready", "127.0.0.1:19092")]
    assert len(seen) == 2
    assert "shop" in arguments
    assert "hush" not in " ".join(arguments)


def test_a_worker_that_may_be_retried_is_started_again(tmp_path: Path, scripts: dict[str, str]) -> None:
    marker = tmp_path / "attempts"
    scripts["shop"] = (
        f"import os, signal, sys; path = {str(marker)!r}\n"
        "n = len(open(path).read()) if os.path.exists(path) else 0\n"
        "open(path, 'a').write('x')\n"
        "if n == 0: print('the database is starting up', file=sys.stderr); sys.exit(75)\n"
        "if n == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "print('streams', file=sys.stderr, flush=True); signal.pause()"
    )

    async def until(service: Supervisor, recorder: Recorder) -> None:
        await recorder.until(lambda: ("shop", "streams") in recorder.lines)

    recorder, _ = supervise(config(tmp_path, "shop"), until)
    ended = [each for each in recorder.events if each[0] == "ended"]
    assert ended == [
        ("ended", "shop", "the database is starting up", True),
        ("ended", "shop", "killed by SIGKILL", True),
    ]


def test_a_fatal_end_is_reported_and_the_others_go_on(tmp_path: Path, scripts: dict[str, str]) -> None:
    url = "postgresql://app:hush@db/shop"
    scripts["bad"] = f"import sys; print('cannot use {url}', file=sys.stderr); sys.exit(1)"
    scripts["done"] = "pass"
    scripts["good"] = STREAM

    async def until(service: Supervisor, recorder: Recorder) -> None:
        await event(recorder, "ended", "bad")
        await event(recorder, "finished", "done")
        await service.ready()
        await asyncio.sleep(0.2)
        assert len(psutil.Process().children()) == 2
        assert set(service.failures) == {"bad"}

    recorder, _ = supervise(config(tmp_path, "bad", "done", "good"), until)
    assert ("ended", "bad", "cannot use postgresql://app:********@db/shop", False) in recorder.events
    assert sum(each[0] == "ended" for each in recorder.events) == 1


def test_a_gateway_that_cannot_start_ends_the_service(tmp_path: Path, scripts: dict[str, str]) -> None:
    scripts["gateway"] = "import sys; print('port 9092 is taken', file=sys.stderr); sys.exit(1)"
    scripts["shop"] = STREAM

    async def until(service: Supervisor, recorder: Recorder) -> None:
        await asyncio.sleep(20)

    with pytest.raises(SupervisorError, match="port 9092 is taken"):
        supervise(config(tmp_path, "shop"), until)


def test_a_gateway_that_dies_comes_back_on_its_ports(tmp_path: Path, scripts: dict[str, str]) -> None:
    scripts["gateway"] = f"import sys; print(sys.argv[1:], file=sys.stderr, flush=True); {SERVE}"

    async def until(service: Supervisor, recorder: Recorder) -> None:
        await service.ready()
        (gateway,) = psutil.Process().children()
        gateway.kill()
        await event(recorder, "recovered", "gateway")
        await recorder.until(lambda: len(recorder.lines) == 2)

    recorder, _ = supervise(config(tmp_path), until)
    first, second = (line for _, line in recorder.lines)
    assert "127.0.0.1:0" in first
    assert "127.0.0.1:19092" in second
    assert "127.0.0.1:18081" in second
    assert recorder.events.count(("ready", "127.0.0.1:19092")) == 1


def test_what_does_not_end_by_itself_is_killed(tmp_path: Path, scripts: dict[str, str]) -> None:
    scripts["shop"] = (
        "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('deaf', file=sys.stderr, flush=True)\nwhile True: signal.pause()"
    )

    async def until(service: Supervisor, recorder: Recorder) -> None:
        await service.ready()
        await recorder.until(lambda: ("shop", "deaf") in recorder.lines)

    started = time.monotonic()
    supervise(config(tmp_path, "shop", stop_timeout_ms=200), until)
    assert time.monotonic() - started < 10


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_children_die_with_a_killed_supervisor() -> None:
    program = (
        "import os, subprocess, sys\nfrom gateway.worker_process import dies_with\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'],"
        " preexec_fn=dies_with(os.getpid()), start_new_session=True)\n"
        "print(child.pid, flush=True)\nchild.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert child.is_running()
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        deadline = time.monotonic() + 5
        while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_held_gateway_touches_nothing_before_it_is_told(tmp_path: Path) -> None:
    held = worker_process.start_held_gateway()
    data = tmp_path / "data"
    endpoints: list[Endpoints] = []

    async def run() -> None:
        service = Supervisor(Config(log=LogConfig(data=data), gateway=ANYWHERE), Recorder(), held=held)
        assert not data.exists()
        running = asyncio.create_task(service.run())
        async with asyncio.timeout(20):
            endpoints.append(await service.ready())
        service.stop()
        await running

    asyncio.run(run())
    assert endpoints[0].kafka.startswith("127.0.0.1:")
    assert data.exists()
    held.discard()  # does nothing to one that was used


def test_a_held_gateway_that_is_not_needed_is_ended() -> None:
    held = worker_process.start_held_gateway()
    process = psutil.Process(held.pid)
    held.discard()
    assert not process.is_running()
