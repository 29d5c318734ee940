"""The gateway process put together: log, group coordinator, and the three listeners in front of them."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from uuid import UUID

from aiohttp import web

from capture.log import CommittedOffsets, Log, LogReader
from gateway.broker.apis import APIS, served
from gateway.broker.dispatch import Dispatcher
from gateway.broker.limits import BrokerLimits
from gateway.broker.listener import Listener
from gateway.cluster_id import cluster_id
from gateway.config import Address, Config
from gateway.context import NODE_ID, Context
from gateway.groups import Coordinator, GroupConfig
from gateway.observe import Metrics
from gateway.topics.commits import CommitWatch
from gateway.topics.parked import ParkedFetches

log = logging.getLogger(__name__)

_HTTP_GRACE_S: Final = 0.2


class StartError(Exception):
    """The gateway cannot start; says what failed and what to do."""


class Gateway:
    """One gateway over one data directory: `start` once, `stop` once, in the same event loop."""

    def __init__(
        self, config: Config, *, limits: BrokerLimits | None = None, groups: GroupConfig | None = None
    ) -> None:
        self.kafka: Address = config.gateway.kafka
        """Where it listens, with the port that 0 became; likewise the next two."""
        self.registry: Address = config.gateway.registry
        self.admin: Address = config.gateway.admin
        self.ready = False
        """Whether all listeners answer and the gateway is not stopping."""
        self._config = config
        self._limits = limits or BrokerLimits()
        self._groups = groups or GroupConfig()
        self._runners: list[web.AppRunner] = []

    async def start(self, *, http: bool = True) -> None:
        """Load the catalog, then listen, and accept nobody before all is there.

        Raises StartError, and LogError for a data directory that cannot be used. Without `http` neither
        registry nor admin are served.
        """
        data = self._config.log.data
        self.log = Log.open(data, create=True)
        self.reader = LogReader(self.log)
        self.metrics = Metrics()
        self.parked = ParkedFetches(asyncio.get_running_loop().call_later, self.metrics)
        self._offsets = CommittedOffsets(data)
        self.coordinator = Coordinator(self._offsets, self._groups, topic_id=self._topic_id)
        self._listener = Listener(Dispatcher(APIS, self.metrics), self._limits)
        self.kafka = await _listen("kafka", self.kafka, self._listener.bind)
        self.coordinator.start()
        self._watch = CommitWatch(data, self.reader, self.parked)
        self._watch.start()
        if http:
            await self._start_http()
        await self._listener.serve(self._context())
        self.ready = True
        log.info("gateway ready", extra={"kafka": str(self.kafka), "topics": len(self.reader.topics)})

    async def stop(self) -> None:
        """Answer what can be answered, end all connections, store what clients committed."""
        self.ready = False
        self._watch.close()
        self.parked.end_all()
        await self._listener.close()
        for runner in self._runners:
            await runner.cleanup()
        await self.coordinator.close()
        self._offsets.close()
        self.log.close()
        log.info("gateway stopped")

    def _context(self) -> Context:
        advertised = self._config.gateway.advertised or self.kafka
        if not advertised.port:
            advertised = Address(advertised.host, self.kafka.port)
        return Context(
            log=self.log,
            reader=self.reader,
            coordinator=self.coordinator,
            metrics=self.metrics,
            parked=self.parked,
            apis=served(),
            settings=_settings(advertised, self._limits, self._groups),
            cluster_id=cluster_id(self._config.log.data),
            advertised_host=advertised.host,
            advertised_port=advertised.port,
        )

    def _topic_id(self, name: str) -> UUID | None:
        topic = self.reader.topics.get(name)
        return None if topic is None else topic.topic_id

    async def _start_http(self) -> None:
        from gateway import observe, registry

        schemas = registry.app(self.log, self.metrics)
        self.registry = await self._serve_http("registry", self.registry, schemas)
        self.admin = await self._serve_http("admin", self.admin, observe.app(self))

    async def _serve_http(self, name: str, address: Address, app: web.Application) -> Address:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_HTTP_GRACE_S)
        await runner.setup()
        self._runners.append(runner)

        async def bind(host: str, port: int) -> int:
            await web.TCPSite(runner, host, port).start()
            bound: int = runner.addresses[0][1]
            return bound

        return await _listen(name, address, bind)


async def _listen(name: str, address: Address, bind: Callable[[str, int], Awaitable[int]]) -> Address:
    try:
        return Address(address.host, await bind(address.host, address.port))
    except OSError as error:
        raise StartError(
            f"cannot listen on {address} for {name}: {error.strerror or error}. Give another address with "
            f"--{name} HOST:PORT (port 0 takes a free one), or end the process that has this one"
        ) from error


def _settings(advertised: Address, limits: BrokerLimits, groups: GroupConfig) -> Mapping[str, str]:
    """The broker's settings by Kafka's names; each of them is in force."""
    return {
        "advertised.listeners": f"PLAINTEXT://{advertised}",
        "auto.create.topics.enable": "false",
        "broker.id": str(NODE_ID),
        "connections.max.idle.ms": str(limits.max_idle_ms),
        "default.replication.factor": "1",
        "group.initial.rebalance.delay.ms": str(groups.initial_rebalance_delay_ms),
        "group.max.session.timeout.ms": str(groups.max_session_timeout_ms),
        "group.max.size": str(groups.max_members),
        "group.min.session.timeout.ms": str(groups.min_session_timeout_ms),
        "node.id": str(NODE_ID),
        "num.partitions": "1",
        "offset.metadata.max.bytes": str(groups.offset_metadata_max_bytes),
        "offsets.retention.minutes": str(groups.offsets_retention_ms // 60_000),
        "process.roles": "broker",
        "socket.request.max.bytes": str(limits.max_frame_bytes),
    }


async def run(config: Config, announce: Callable[[Gateway], None]) -> None:
    """Serve until SIGTERM or SIGINT, `announce` when everything answers. Raises as `Gateway.start`."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    gateway = Gateway(config)
    await gateway.start()
    announce(gateway)
    await stop.wait()
    await gateway.stop()
