"""The state of a running service in one value: what the captures last said of themselves, and the clients."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from capture.log import Log

_HTTP_TIMEOUT_S: Final = 2.0
_RATE_WINDOW_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class TableProgress:
    """How far the snapshot of one topic's table is."""

    topic: str
    rows_done: int
    rows_estimated: int
    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureStatus:
    """What a capture last said (`Catalog.put_status`); lag is behind the database's end of WAL."""

    name: str
    phase: str = "starting"
    rows_total: int = 0
    lag_bytes: int | None = None
    lag_seconds: float | None = None
    lsn: str | None = None
    error: str | None = None
    tables: tuple[TableProgress, ...] = ()

    @classmethod
    def read(cls, name: str, status: Mapping[str, Any]) -> CaptureStatus:
        """From the catalog's JSON, where a key may be missing that the capture does not know yet."""
        tables = status.get("tables")
        return cls(
            name=name,
            phase=str(status.get("phase", "starting")),
            rows_total=int(status.get("rows_total") or 0),
            lag_bytes=status.get("lag_bytes"),
            lag_seconds=status.get("lag_seconds"),
            lsn=status.get("lsn"),
            error=status.get("error"),
            tables=tuple(
                TableProgress(
                    topic,
                    int(table.get("rows_done") or 0),
                    int(table.get("rows_estimated") or 0),
                    bool(table.get("done")),
                )
                for topic, table in (tables if isinstance(tables, dict) else {}).items()
            ),
        )

    def as_json(self) -> dict[str, object]:
        """For the JSON lines of `serve` and for `captures --json`."""
        shown: dict[str, object] = {
            "phase": self.phase,
            "rows_total": self.rows_total,
            "lag_bytes": self.lag_bytes,
            "lag_seconds": self.lag_seconds,
            "lsn": self.lsn,
            "tables": {
                table.topic: {
                    "rows_done": table.rows_done,
                    "rows_estimated": table.rows_estimated,
                    "done": table.done,
                }
                for table in self.tables
            },
        }
        if self.error:
            shown["error"] = self.error
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """All captures, the rows a second that they write together, and the Kafka connections (None: unknown)."""

    captures: tuple[CaptureStatus, ...] = ()
    rows_per_second: float = 0.0
    connections: int | None = None

    @property
    def snapshotting(self) -> bool:
        """Whether any capture is still in its snapshot."""
        return any(capture.phase == "snapshot" for capture in self.captures)

    @property
    def lag_bytes(self) -> int:
        """The largest lag."""
        return max((capture.lag_bytes or 0 for capture in self.captures), default=0)

    @property
    def lag_seconds(self) -> float:
        """The largest lag."""
        return max((capture.lag_seconds or 0.0 for capture in self.captures), default=0.0)


@dataclass
class StatusReader:
    """Reads the status of the captures of one service again and again, and derives the rate of rows."""

    log: Log
    names: Sequence[str]
    since_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    failures: Mapping[str, str] = field(default_factory=dict)
    _samples: list[tuple[float, int]] = field(default_factory=list)

    def read(self, now_s: float, connections: int | None = None) -> ServiceStatus:
        """The status now; what a capture wrote before this service started does not count."""
        statuses = self.log.catalog.statuses()
        captures = []
        for name in self.names:
            updated_ms, status = statuses.get(name, (0, {}))
            capture = CaptureStatus.read(name, status if updated_ms >= self.since_ms else {})
            if name in self.failures:
                capture = CaptureStatus.read(
                    name, {**status, "phase": "failed", "error": self.failures[name]}
                )
            captures.append(capture)
        rows = sum(capture.rows_total for capture in captures)
        self._samples.append((now_s, rows))
        while len(self._samples) > 2 and now_s - self._samples[1][0] >= _RATE_WINDOW_S:
            del self._samples[0]
        first_s, first_rows = self._samples[0]
        rate = (rows - first_rows) / (now_s - first_s) if now_s > first_s else 0.0
        return ServiceStatus(
            captures=tuple(captures), rows_per_second=max(rate, 0.0), connections=connections
        )


async def kafka_connections(admin: str) -> int | None:
    """How many Kafka clients are connected, by the gateway's own metrics; None when it does not answer."""
    from gateway.config import Address
    from gateway.observe.names import CONNECTIONS

    address = Address.parse(admin)
    with contextlib.suppress(OSError, TimeoutError, ValueError):
        async with asyncio.timeout(_HTTP_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            try:
                writer.write(f"GET /metrics HTTP/1.0\r\nHost: {admin}\r\n\r\n".encode())
                body = await reader.read(-1)
            finally:
                writer.close()
        for line in body.decode(errors="replace").splitlines():
            if line.startswith(f"{CONNECTIONS} "):
                return int(float(line.split()[-1]))
    return None
