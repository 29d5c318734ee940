"""The socket that Kafka clients connect to, and the connections that came of it."""

import asyncio
import contextlib
import logging

from gateway.broker.connection import Connection
from gateway.broker.dispatch import Dispatcher
from gateway.broker.limits import BrokerLimits
from gateway.broker.sending import SendingCosts
from gateway.context import Context

log = logging.getLogger(__name__)

_BACKLOG = 1024
_SWEEPS_PER_IDLE_TIME = 10


class Listener:
    """Accepts connections, closes those that are idle for too long, and ends all of them at the end."""

    def __init__(self, dispatcher: Dispatcher, limits: BrokerLimits) -> None:
        self.sending_costs = SendingCosts()
        self._dispatcher = dispatcher
        self._limits = limits
        self._context: Context | None = None
        self._connections: set[Connection] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def bind(self, host: str, port: int) -> int:
        """Take the address without accepting anyone yet; the port, which 0 leaves to the system.

        Raises OSError when the address cannot be had.
        """
        self._server = await asyncio.get_running_loop().create_server(
            self._connection, host, port, backlog=_BACKLOG, start_serving=False
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def serve(self, context: Context) -> None:
        """Accept connections from now on."""
        assert self._server is not None
        self._context = context
        await self._server.start_serving()
        self._sweep_later()

    async def close(self) -> None:
        """Accept nobody any more, give clients a moment to take what is under way, end all connections."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), self._limits.stop_grace_ms / 1000)
        for connection in list(self._connections):
            connection.abort()

    def opened(self, connection: Connection) -> None:
        """A connection begins."""
        self._connections.add(connection)
        self._empty.clear()

    def closed(self, connection: Connection) -> None:
        """A connection has ended."""
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    def _connection(self) -> Connection:
        assert self._context is not None
        return Connection(self._dispatcher, self._context, self._limits, self)

    def _sweep_later(self) -> None:
        interval_s = self._limits.max_idle_ms / 1000 / _SWEEPS_PER_IDLE_TIME
        self._sweeper = asyncio.get_running_loop().call_later(interval_s, self._sweep)

    def _sweep(self) -> None:
        """End the connections on which nothing moved for the whole idle time, unless they wait for us."""
        for connection in list(self._connections):
            if connection.has_moved_bytes() or connection.waits_for_us:
                connection.idle_sweeps = 0
                continue
            connection.idle_sweeps += 1
            if connection.idle_sweeps > _SWEEPS_PER_IDLE_TIME:
                log.debug("idle connection closed")
                connection.abort()
        self._sweep_later()
