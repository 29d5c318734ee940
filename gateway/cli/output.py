"""How commands print: JSON for programs, rich tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console


def print_json(value: object) -> None:
    """One JSON document, indented where a person may be reading."""
    click.echo(json.dumps(value, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False, default=str))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """A table with right-aligned numbers; `empty` is said where there is no row.

    Cells are plain text (no markup), and a pipe gets every column in full width.
    """
    from rich.table import Table
    from rich.text import Text

    materialised = [list(row) for row in rows]
    if not materialised:
        click.echo(empty)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for place, heading in enumerate(headings):
        numeric = all(isinstance(row[place], int | float) for row in materialised)
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in materialised:
        table.add_row(*(Text(number(cell)) for cell in row))
    console().print(table)


def console(*, stderr: bool = False) -> Console:
    """A rich console; where there is no terminal it is wide enough never to fold a line."""
    from rich.console import Console

    out = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not out.is_terminal:
        out = Console(stderr=stderr, highlight=False, width=1000)
    return out


def number(value: object) -> str:
    """Numbers with thin groups of thousands, everything else as it is."""
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return str(value)


def byte_size(count: int) -> str:
    """A number of bytes in the unit a person would choose (powers of 1024)."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def duration(seconds: float) -> str:
    """Seconds as "0.2 s", "48 s", "3 min 20 s" or "5 h 12 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
