"""How `serve` tells what it does: a live line on a terminal, JSON lines for a program."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import click

from gateway.cli.output import byte_size, console, duration, number
from gateway.cli.status import CaptureStatus, ServiceStatus
from gateway.supervisor import Endpoints
from gateway.supervisor import Reporter as SupervisorReporter

if TYPE_CHECKING:
    from rich.console import RenderableType

_GIVEN_UP = "it is not started again: mend the cause and start the service anew"


class ServiceReporter(SupervisorReporter, Protocol):
    """A supervisor's reporter that is shown the status as well; used as a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def status(self, status: ServiceStatus) -> None:
        """The captures' and the gateway's state, about once a second."""


class JsonReporter:
    """One JSON object a line on stdout; the workers' own log lines go to stderr as they are."""

    def __init__(
        self, captures: Sequence[str], data: Path, *, after_ready: Iterable[Mapping[str, object]] = ()
    ) -> None:
        self._captures = list(captures)
        self._after_ready = after_ready
        self._data = data
        self._last: object = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def ready(self, endpoints: Endpoints) -> None:
        """The first line a program waits for."""
        data = str(self._data.resolve())
        self._print("ready", **asdict(endpoints), captures=self._captures, data=data)
        for event in self._after_ready:
            click.echo(json.dumps(event, ensure_ascii=False))

    def log_line(self, worker: str, line: str) -> None:
        """Passed on."""
        click.echo(line, err=True)

    def ended(self, worker: str, sentence: str, retry_in_s: float | None) -> None:
        """`retry_in_s` is null where the worker is not started again."""
        self._print("ended", worker=worker, error=sentence, retry_in_s=retry_in_s)

    def finished(self, worker: str) -> None:
        """A capture came to its end."""
        self._print("finished", worker=worker)

    def recovered(self, worker: str) -> None:
        """A worker runs again."""
        self._print("restarted", worker=worker)

    def status(self, status: ServiceStatus) -> None:
        """Only where something changed since the last one."""
        captures = {capture.name: capture.as_json() for capture in status.captures}
        if captures == self._last:
            return
        self._last = captures
        self._print(
            "status",
            captures=captures,
            rows_per_second=round(status.rows_per_second, 1),
            connections=status.connections,
        )

    @staticmethod
    def _print(event: str, **fields: object) -> None:
        click.echo(json.dumps({"event": event, **fields}, ensure_ascii=False))
        sys.stdout.flush()


class QuietReporter:
    """Keeps what the workers say and shows it only where something went wrong."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show_logs(self) -> None:
        """The workers' log lines, to stderr."""
        for line in self._lines:
            click.echo(line, err=True)

    def ready(self, endpoints: Endpoints) -> None:
        """Nothing to say."""

    def log_line(self, worker: str, line: str) -> None:
        """Kept."""
        self._lines.append(f"[{worker}] {line}")

    def ended(self, worker: str, sentence: str, retry_in_s: float | None) -> None:
        """Kept."""
        self._lines.append(f"{worker} ended: {sentence}")

    def finished(self, worker: str) -> None:
        """Nothing to say."""

    def recovered(self, worker: str) -> None:
        """Nothing to say."""

    def status(self, status: ServiceStatus) -> None:
        """Nothing to say."""


class HumanReporter:
    """A few lines about what runs where, then a line that keeps changing: snapshot bars, then the status."""

    def __init__(self, describe: Callable[[Endpoints], str], *, verbose: bool = False) -> None:
        from rich.live import Live

        self._describe = describe
        self._verbose = verbose
        self._console = console()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._announced: set[str] = set()
        self._snapshot_done: set[str] = set()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def ready(self, endpoints: Endpoints) -> None:
        """Say where to point clients."""
        self.say(self._describe(endpoints))

    def log_line(self, worker: str, line: str) -> None:
        """Above the live line, dimmed; of JSON log lines only warnings and errors, if not verbose."""
        text = _log_text(line)
        if text is None:
            self.say(f"[{worker}] {line}", style="dim")
        elif self._verbose or text.startswith(("warning", "error", "critical")):
            self.say(f"[{worker}] {text}", style="dim")

    def ended(self, worker: str, sentence: str, retry_in_s: float | None) -> None:
        """In yellow when it comes back, in red when it does not."""
        if retry_in_s is None:
            self.say(f"{worker} ended: {sentence}\n  {_GIVEN_UP}", style="bold red")
        else:
            self.say(f"{worker} ended: {sentence}; started again in {duration(retry_in_s)}", style="yellow")

    def finished(self, worker: str) -> None:
        """A capture came to its end."""
        self.say(f"{worker} is finished", style="green")

    def recovered(self, worker: str) -> None:
        """The next status shows it; nothing to say."""

    def say(self, text: str, style: str = "", *, cut: bool = False) -> None:
        """Print above the live line; with `cut`, no more of a line than fits."""
        from rich.text import Text

        shown = Text(text, style=style)
        if cut:
            self._console.print(shown, overflow="ellipsis", no_wrap=True)
        else:
            # A line that is too long is left to the terminal, so that it can be copied as one.
            self._console.print(shown, soft_wrap=True)

    def status(self, status: ServiceStatus) -> None:
        """Redraw; say once per capture what it captures, and once when its snapshot is done."""
        for capture in status.captures:
            self._announce(capture)
        self._live.update(self._drawn(status), refresh=True)

    def _announce(self, capture: CaptureStatus) -> None:
        if capture.tables and capture.name not in self._announced:
            self._announced.add(capture.name)
            topics = sorted(table.topic for table in capture.tables)
            shown = ", ".join(topics[:8]) + (f" and {len(topics) - 8} more" if len(topics) > 8 else "")
            self.say(f"{capture.name}: {len(topics)} table{'' if len(topics) == 1 else 's'}: {shown}")
        if capture.phase == "streaming" and capture.name not in self._snapshot_done:
            self._snapshot_done.add(capture.name)
            rows = sum(table.rows_done for table in capture.tables)
            if rows:
                self.say(f"{capture.name}: snapshot done, {number(rows)} rows; now streaming", style="green")

    def _drawn(self, status: ServiceStatus) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        line = Text(status_line(status), style="bold")
        if not status.snapshotting:
            return line
        return Group(*(_bar(capture) for capture in status.captures if capture.phase == "snapshot"), line)


def _log_text(line: str) -> str | None:
    """A worker's JSON log line for people: level, event, fields; None for a line that is no such JSON."""
    try:
        record = json.loads(line)
        level, event = record.pop("level"), record.pop("event")
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
    traceback = record.pop("traceback", None)
    fields = [f"{name}={value}" for name, value in record.items() if name not in ("time", "logger")]
    text = " ".join([f"{level}: {event}", *fields])
    return text if traceback is None else f"{text}\n{traceback}"


def _bar(capture: CaptureStatus) -> RenderableType:
    """A capture's snapshot: rows of all its tables against the planner's estimates."""
    from rich.columns import Columns
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    done = sum(table.rows_done for table in capture.tables)
    # The planner's estimates may be short, but a finished table is exactly as long as what was read.
    total = sum(
        table.rows_done if table.done else max(table.rows_estimated, table.rows_done)
        for table in capture.tables
    )
    tables_done = sum(table.done for table in capture.tables)
    return Columns(
        [
            Text(f"{capture.name} snapshot"),
            ProgressBar(total=max(total, 1), completed=done, width=40),
            Text(f"{number(done)} of about {number(total)} rows"),
            Text(f"{tables_done} of {len(capture.tables)} tables"),
        ]
    )


def status_line(status: ServiceStatus) -> str:
    """One line: captures by phase, lag, rows a second, connections."""
    phases: dict[str, int] = {}
    for capture in status.captures:
        phases[capture.phase] = phases.get(capture.phase, 0) + 1
    captures = ", ".join(f"{count} {phase}" for phase, count in phases.items()) or "none"
    parts = [f"captures: {captures}"]
    parts.append(f"lag {byte_size(status.lag_bytes)}, {duration(status.lag_seconds)}")
    parts.append(f"{number(round(status.rows_per_second))} rows/s")
    if status.connections is not None:
        parts.append(f"{status.connections} connection{'' if status.connections == 1 else 's'}")
    return "  |  ".join(parts)
