"""Runs a supervised service in the foreground until a signal ends it; what `serve` and `demo` share."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from gateway.cli.reporters import ServiceReporter
from gateway.cli.status import StatusReader, kafka_connections
from gateway.config import Config
from gateway.supervisor import Supervisor
from gateway.worker_process import WorkerProcess

if TYPE_CHECKING:
    from capture.log import Log

_REDRAW_S: Final = 0.5
_CONNECTIONS_EVERY_S: Final = 5.0
_BESIDE_S: Final = 3.0


async def run_service(
    config: Config,
    log: Log,
    reporter: ServiceReporter,
    *,
    held: WorkerProcess | None = None,
    beside: Callable[[Supervisor], Awaitable[None]] | None = None,
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Supervise until SIGINT or SIGTERM, showing the status meanwhile.

    `held` is a preloaded gateway. `beside` runs with the service and ends it when it returns or fails;
    `stopping` tells it to return when a signal comes. Raises SupervisorError when the gateway cannot start,
    and what `beside` raised.
    """
    supervisor = Supervisor(config, reporter, held=held)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        stopping()
        if beside is None:
            supervisor.stop()
        else:
            loop.call_later(_BESIDE_S, supervisor.stop)

    async def companion() -> None:
        try:
            if beside is not None:
                await beside(supervisor)
                supervisor.stop()
        except BaseException:
            supervisor.stop()
            raise

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    tasks = [asyncio.create_task(watch(supervisor, log, reporter)), asyncio.create_task(companion())]
    try:
        await supervisor.run()
    finally:
        stopping()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
    for result in results:
        if isinstance(result, Exception):
            raise result


async def watch(supervisor: Supervisor, log: Log, reporter: ServiceReporter) -> None:
    """Show the status again and again once the gateway answers; runs until cancelled."""
    names = [capture.name for capture in supervisor.config.captures]
    reader = StatusReader(log, names, failures=supervisor.failures)
    endpoints = await supervisor.ready()
    connections: int | None = None
    asked_s = -_CONNECTIONS_EVERY_S
    while True:
        now_s = time.monotonic()
        if now_s - asked_s >= _CONNECTIONS_EVERY_S:
            asked_s = now_s
            connections = await kafka_connections(endpoints.admin)
        status = reader.read(now_s, connections)
        reporter.status(status)
        await asyncio.sleep(_REDRAW_S if status.snapshotting else 2 * _REDRAW_S)
