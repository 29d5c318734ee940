"""`tidegate topics` and `tidegate captures` over a log on disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

Run = Callable[..., Result]


def test_topics(items: Any, run: Run) -> None:
    items.add_row(1)
    items.add_row(2)
    (topic,) = json.loads(run("topics", "--data", items.data, "--json").stdout)
    assert topic["topic"] == "shop.public.items"
    assert topic["capture"] == "shop"
    assert topic["config"] == {"retention.ms": "60000"}
    assert topic["partitions"] == [{"partition": 0, "log_start_offset": 0, "high_watermark": 2}]
    assert len(topic["topic_id"]) == 36
    text = run("topics", "--data", items.data).stdout
    assert "shop.public.items" in text
    assert "high watermark" in text


def test_captures(items: Any, run: Run) -> None:
    items.add_row(1)
    status = {
        "phase": "snapshot",
        "rows_total": 1234,
        "lag_bytes": 2048,
        "lag_seconds": 0.25,
        "lsn": "0/1A",
        "tables": {items.topic: {"rows_done": 1, "rows_estimated": 10, "done": False}},
    }
    items.log.catalog.put_status("shop", status)
    (capture,) = json.loads(run("captures", "--data", items.data, "--json").stdout)
    assert capture["capture"] == "shop"
    assert capture["position"] == {"lsn": "0/1"}
    assert capture["epoch"] == 1
    assert {name: capture[name] for name in status} == status
    text = run("captures", "--data", items.data).stdout
    for shown in ("shop", "snapshot", "2.0 KiB", "0.2 s", "1,234"):
        assert shown in text


def test_a_directory_without_a_log_is_a_clear_refusal(tmp_path: Path, run: Run) -> None:
    for command in ("topics", "captures"):
        result = run(command, "--data", tmp_path / "none")
        assert result.exit_code == 1
        assert "no change log" in result.stderr


def test_an_empty_log_says_so(tmp_path: Path, run: Run, items: Any) -> None:
    from capture.log import Log

    Log.open(tmp_path / "empty", create=True).close()
    assert "no topics yet" in run("topics", "--data", tmp_path / "empty").stdout
    assert "no captures yet" in run("captures", "--data", tmp_path / "empty").stdout
