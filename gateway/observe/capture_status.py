"""What captures say of themselves, read as it may come: another process, maybe of another version, wrote
it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TableProgress:
    """The snapshot of one table, by the topic it goes to."""

    topic: str
    rows_done: float
    rows_estimated: float
    done: bool


@dataclass(frozen=True, slots=True)
class CaptureStatus:
    """One capture's newest status; a figure it did not give is None."""

    capture: str
    age_s: float
    phase: str
    error: str | None
    lag_bytes: float | None
    lag_seconds: float | None
    rows: float | None
    tables: tuple[TableProgress, ...]


def read_statuses(
    statuses: Mapping[str, tuple[int, Mapping[str, object]]], now_ms: int
) -> list[CaptureStatus]:
    """The statuses of `Catalog.statuses()`, by name."""
    return [
        CaptureStatus(
            capture=capture,
            age_s=max(now_ms - updated_ms, 0) / 1000,
            phase=str(status.get("phase", "unknown")),
            error=None if status.get("error") is None else str(status["error"]),
            lag_bytes=_number(status.get("lag_bytes")),
            lag_seconds=_number(status.get("lag_seconds")),
            rows=_number(status.get("rows_total")),
            tables=tuple(_tables(status.get("tables"))),
        )
        for capture, (updated_ms, status) in sorted(statuses.items())
    ]


def _tables(tables: object) -> list[TableProgress]:
    if not isinstance(tables, Mapping):
        return []
    return [
        TableProgress(
            str(topic),
            _number(table.get("rows_done")) or 0.0,
            _number(table.get("rows_estimated")) or 0.0,
            table.get("done") is True,
        )
        for topic, table in sorted(tables.items())
        if isinstance(table, Mapping)
    ]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
