"""`tidegate captures`: what the captures of a change log last said of themselves."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from gateway.cli.output import byte_size, duration, print_json, print_table
from gateway.cli.settings import Arguments, configuration, data_options, json_option, open_log, refusing
from gateway.cli.status import CaptureStatus


@click.command(name="captures")
@data_options
@json_option
def command(as_json: bool, **given: Any) -> None:
    """List the captures that write the change log: phase, lag, rows, and when each was last heard of."""
    with refusing():
        config = configuration(Arguments(**given))
        catalog = open_log(config).catalog
        rows = catalog.captures()
        heard_ms = {name: updated_ms for name, (updated_ms, _) in catalog.statuses().items()}
    now_ms = time.time_ns() // 1_000_000
    shown = []
    for row in rows:
        status = CaptureStatus.read(row.name, json.loads(row.state))
        age_s = max(0.0, (now_ms - heard_ms.get(row.name, row.updated_ms)) / 1000)
        shown.append((row, status, age_s))
    if as_json:
        document = [
            {
                "capture": row.name,
                "epoch": row.epoch,
                **status.as_json(),
                "position": _document(row.position),
                "heard_of_seconds_ago": round(age_s, 3),
            }
            for row, status, age_s in shown
        ]
        print_json(document)
        return
    table = [
        (
            row.name,
            status.phase,
            "" if status.lag_bytes is None else byte_size(status.lag_bytes),
            "" if status.lag_seconds is None else duration(status.lag_seconds),
            status.rows_total,
            status.lsn or "",
            f"{duration(age_s)} ago",
            status.error or "",
        )
        for row, status, age_s in shown
    ]
    headings = ("capture", "phase", "lag", "behind", "rows", "lsn", "heard of", "error")
    print_table(headings, table, empty=f"{config.log.data}: no captures yet")


def _document(position: str | None) -> object:
    """A position is the capture's own JSON text."""
    return None if position is None else json.loads(position)
