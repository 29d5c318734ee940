"""The admin port: /metrics for Prometheus, /health and /ready for whoever supervises the process."""

import asyncio
import json
import logging
import sqlite3
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from aiohttp import web
from prometheus_client import PlatformCollector, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from capture.log import CommittedOffset, Log, LogError, LogReader
from gateway.observe import collect, names
from gateway.observe.capture_status import CaptureStatus, read_statuses
from gateway.observe.metrics import Metrics
from protocol.errors import KafkaError

if TYPE_CHECKING:
    from gateway.groups import Coordinator

log = logging.getLogger(__name__)

STATUS_STALE_S: Final = 30.0
"""A capture that has not reported for this long is taken for dead; it reports every few seconds at least."""
PROBE_TIMEOUT_S: Final = 2.0

_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""An ApiVersions request of version 0 without a client id: size, key, version, correlation id 1, null."""

Committed = Mapping[str, Mapping[tuple[UUID, int], CommittedOffset]]
"""Committed offsets by group, then by topic id and partition index."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Endpoint(Protocol):
    """A host and port; printed as HOST:PORT."""

    @property
    def host(self) -> str:
        """The host, which may stand for all interfaces."""

    @property
    def port(self) -> int:
        """The TCP port."""


class Observed(Protocol):
    """What is asked of the gateway."""

    log: Log
    reader: LogReader
    metrics: Metrics
    coordinator: "Coordinator"
    ready: bool

    @property
    def kafka(self) -> Endpoint:
        """Where Kafka is answered."""

    @property
    def registry(self) -> Endpoint:
        """Where the schema registry is."""


def app(gateway: Observed) -> web.Application:
    """The admin port's pages."""
    pages = Pages(gateway)
    application = web.Application(middlewares=[_errors_as_json])
    application.router.add_get("/", pages.index)
    application.router.add_get("/metrics", pages.metrics)
    application.router.add_get("/health", pages.health)
    application.router.add_get("/ready", pages.ready)
    return application


class Pages:
    """The handlers."""

    def __init__(self, gateway: Observed) -> None:
        self._gateway = gateway
        self._process: list[Any] = [ProcessCollector(registry=None), PlatformCollector(registry=None)]

    async def index(self, request: web.Request) -> web.StreamResponse:
        """What there is to see, and where clients go."""
        return _json(
            {
                "name": "tidegate",
                "version": _version(),
                "kafka": str(self._gateway.kafka),
                "registry": f"http://{self._gateway.registry}",
                "paths": ["/metrics", "/health", "/ready"],
            }
        )

    async def health(self, request: web.Request) -> web.StreamResponse:
        """Whether this process works at all: if not, restarting it may help."""
        problem = self._catalog_problem()
        return _checks({"catalog": problem})

    async def ready(self, request: web.Request) -> web.StreamResponse:
        """Whether clients are served, and with changes that are fresh."""
        checks = {
            "catalog": self._catalog_problem(),
            "listener": await self._listener_problem(),
        }
        for status in self._statuses():
            checks[f"capture {status.capture}"] = _capture_problem(status)
        return _checks(checks)

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """All figures, in the text format that the scraper asks for."""
        families, failed = [], []
        for part, figures in (
            ("broker", self._broker),
            ("log", self._log),
            ("groups", self._groups),
            ("captures", self._captures),
        ):
            try:
                families += list(await figures())
            except (KafkaError, LogError, sqlite3.Error, OSError) as error:
                log.warning("figures are missing", extra={"part": part, "problem": str(error)})
                failed.append(part)
        missing = GaugeMetricFamily(
            names.SCRAPE_ERRORS, "1 for a part whose figures could not be read.", labels=[names.PART]
        )
        for part in failed:
            missing.add_metric([part], 1)
        families.append(missing)
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        loop = asyncio.get_running_loop()
        text = await loop.run_in_executor(None, encode, _Collected(families, self._process))
        return web.Response(body=text, headers={"Content-Type": content_type})

    # Figures.

    async def _broker(self) -> Iterable[Metric]:
        info = GaugeMetricFamily(names.BUILD_INFO, "1, with the version as label.", labels=[names.VERSION])
        info.add_metric([_version()], 1)
        return [info, *collect.broker(self._gateway.metrics)]

    async def _log(self) -> Iterable[Metric]:
        return collect.log(self._partitions())

    async def _groups(self) -> Iterable[Metric]:
        coordinator = self._gateway.coordinator
        answer: asyncio.Future[Committed | KafkaError]
        answer = asyncio.get_running_loop().create_future()

        def deliver(found: Committed | KafkaError) -> None:
            if not answer.done():
                answer.set_result(found)

        coordinator.fetch(coordinator.groups_with_offsets(), deliver)
        committed = await answer
        if isinstance(committed, KafkaError):
            raise committed
        return collect.groups(
            collect.GroupFigures(
                summaries=coordinator.summaries(),
                lags=self._lags(committed),
                offset_commits=coordinator.offset_commits,
                offset_commit_batches=coordinator.offset_commit_batches,
            )
        )

    async def _captures(self) -> Iterable[Metric]:
        return collect.captures(self._statuses())

    def _partitions(self) -> Iterator[collect.PartitionFigures]:
        reader = self._gateway.reader
        for topic in reader.topics.values():
            for row in topic.partitions:
                partition = reader.partition(row.partition_id)
                yield collect.PartitionFigures(
                    topic.name, row.index, partition.log_start_offset, partition.high_watermark
                )

    def _lags(self, committed: Committed) -> dict[tuple[str, str], int]:
        reader = self._gateway.reader
        lags: dict[tuple[str, str], int] = {}
        for group_id, offsets in committed.items():
            for (topic_id, index), offset in offsets.items():
                topic = reader.topics_by_id.get(topic_id)
                if topic is None or index >= len(topic.partitions):
                    continue
                end = reader.partition(topic.partitions[index].partition_id).high_watermark
                key = (group_id, topic.name)
                lags[key] = lags.get(key, 0) + max(end - max(offset.offset, 0), 0)
        return lags

    def _statuses(self) -> list[CaptureStatus]:
        return read_statuses(self._gateway.log.catalog.statuses(), time.time_ns() // 1_000_000)

    # Checks; each is None if all is well, or says what is not.

    def _catalog_problem(self) -> str | None:
        try:
            self._gateway.log.catalog.state()
        except (LogError, sqlite3.Error, OSError) as error:
            return f"cannot be read: {error}"
        return None

    async def _listener_problem(self) -> str | None:
        if not self._gateway.ready:
            return "is starting or stopping"
        address = self._gateway.kafka
        host = "127.0.0.1" if address.host == "0.0.0.0" else "::1" if address.host == "::" else address.host
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                await _probe(host, address.port)
        except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
            return f"does not answer on {address}: {error or 'timed out'}"
        return None


class _Collected:
    """Families that are collected already, and the process's own, as an encoder wants them."""

    def __init__(self, families: list[Metric], process: list[Any]) -> None:
        self._families = families
        self._process = process

    def collect(self) -> Iterator[Metric]:
        yield from self._families
        for collector in self._process:
            yield from collector.collect()


async def _probe(host: str, port: int) -> None:
    """Ask ApiVersions as a client does; any answer to it will do."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_API_VERSIONS)
        await reader.readexactly(10)
    finally:
        writer.close()


def _capture_problem(status: CaptureStatus) -> str | None:
    if status.phase == "stopped":
        return None
    if status.phase == "failed":
        return f"failed: {status.error or 'see its log'}"
    if status.age_s > STATUS_STALE_S:
        return f"has not reported for {status.age_s:.0f} s: it is not running, or it hangs"
    return None


def _checks(checks: Mapping[str, str | None]) -> web.Response:
    """200 if every check is well, else 503; each check with what is wrong."""
    failing = any(checks.values())
    body = {
        "status": "failing" if failing else "ok",
        "checks": {name: problem or "ok" for name, problem in checks.items()},
    }
    return _json(body, 503 if failing else 200)


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _json({"status": "failing", "error": f"HTTP {error.status} {error.reason}"}, error.status)
    except Exception:  # one of the outermost loops: a bug ends one request only
        log.exception("request to the admin port failed", extra={"path": request.path})
        return _json({"status": "failing", "error": "HTTP 500 Internal Server Error"}, 500)


def _json(body: object, status: int = 200) -> web.Response:
    return web.Response(
        body=json.dumps(body, indent=1).encode() + b"\n", status=status, content_type="application/json"
    )


def _version() -> str:
    try:
        return metadata.version("tidegate")
    except metadata.PackageNotFoundError:
        return "0"
