"""`tidegate serve` whole: what it prints, what `ps` shows, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.gateway.cli.terminal import Terminal
from tests.support.postgres import PostgresServer
from tests.support.process import Process, tidegate
from tests.support.service import ROOT

ADDRESSES = [part for name in ("kafka", "registry", "admin") for part in (f"--{name}", "127.0.0.1:0")]
ENVIRONMENT = {"PYTHONPATH": str(ROOT)}


@pytest.fixture
def shop(database: str) -> str:
    """A database with one small table; its URL."""
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE items (id int PRIMARY KEY, name text)")
        connection.execute("INSERT INTO items SELECT i, 'item ' || i FROM generate_series(1, 500) AS i")
    return database


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


def serve(folder: Path, *arguments: str) -> Process:
    command = tidegate("serve", *arguments, "--data", str(folder / "data"), *ADDRESSES)
    return Process(command, errors=folder / "stderr", environment=ENVIRONMENT)


def events(process: Process) -> list[dict[str, object]]:
    return [json.loads(line) for line in process.lines]


def streaming(process: Process, capture: str) -> None:
    """Wait until a capture streams."""
    process.until(
        f"{capture} does not stream",
        lambda lines: any(
            event["event"] == "status" and event["captures"].get(capture, {}).get("phase") == "streaming"
            for event in map(json.loads, lines)
        ),
    )


def gone(children: Sequence[psutil.Process], *, within_s: float = 10.0) -> bool:
    _, alive = psutil.wait_procs(list(children), timeout=within_s)
    return not alive


def test_from_ready_to_the_end(shop: str, tmp_path: Path) -> None:
    capture = name_of(shop)
    secret = f"{shop}".replace("postgres@", "postgres:hush@")
    with serve(tmp_path, "--postgres", secret, "--set", f"slot.name={capture}") as process:
        ready = process.event("ready")
        streaming(process, capture)
        assert json.loads(process.lines[0]) == ready
        assert ready["captures"] == [capture]
        assert ready["data"] == str(tmp_path / "data")
        assert all(re.fullmatch(r"127\.0\.0\.1:[1-9]\d+", ready[name]) for name in ("kafka", "admin"))
        children = process.children()
        assert len(children) == 2
        commands = [" ".join(child.cmdline()) for child in children]
        assert "hush" not in " ".join(commands)
        assert process.end() == 0
        assert gone(children, within_s=0.1)
        status = [event for event in events(process) if event["event"] == "status"][-1]
        tables = status["captures"][capture]["tables"]  # type: ignore[index]  # JSON
        assert tables == {f"{capture}.public.items": {"rows_done": 500, "rows_estimated": 500, "done": True}}
    assert "hush" not in process.said() + "\n".join(process.lines)


def test_children_end_with_a_killed_supervisor(shop: str, tmp_path: Path) -> None:
    with serve(tmp_path, "--postgres", shop, "--set", f"slot.name={name_of(shop)}") as process:
        streaming(process, name_of(shop))
        children = process.children()
        os.kill(process.pid, signal.SIGKILL)
        assert len(children) == 2
        assert gone(children)


def test_one_capture_that_fails_leaves_the_others_running(
    postgres: PostgresServer, shop: str, tmp_path: Path
) -> None:
    good = name_of(shop)
    configuration = tmp_path / "tidegate.toml"
    configuration.write_text(
        f'[capture.good]\npostgres = "{shop}"\nslot.name = "{good}"\n'
        f'[capture.bad]\npostgres = "{postgres.dsn("no_such_database")}"\nslot.name = "{good}_bad"\n'
    )
    with serve(tmp_path, "--config", str(configuration), "--no-doctor") as process:
        ended = process.event("ended")
        assert ended["worker"] == "bad"
        assert ended["retry_in_s"] is None
        assert "no_such_database" in ended["error"]
        streaming(process, "good")
        with psycopg.connect(shop) as connection:
            connection.execute("INSERT INTO items VALUES (1000, 'more')")
        process.until(
            "the other capture stands still",
            lambda lines: any('"rows_total": 501' in line for line in lines),
        )
        assert process.end() == 0


def test_a_worker_comes_back_after_a_kill(shop: str, tmp_path: Path) -> None:
    capture = name_of(shop)
    with serve(tmp_path, "--postgres", shop, "--set", f"slot.name={capture}") as process:
        ready = process.event("ready")
        streaming(process, capture)
        for child in process.children():
            child.kill()
        process.until(
            "the workers do not come back",
            lambda lines: sum(json.loads(line)["event"] == "restarted" for line in lines) >= 2,
        )
        tail = tidegate("topics", "--data", str(tmp_path / "data"), "--json")
        (topic,) = json.loads(subprocess.run(tail, env={**os.environ, **ENVIRONMENT}, stdout=-1).stdout)
        assert topic["partitions"][0]["high_watermark"] == 500
        deadline = time.monotonic() + 20
        while not _answers(ready["registry"]):
            assert time.monotonic() < deadline, process.said()
            time.sleep(0.05)
        assert process.end() == 0


def _answers(address: str) -> bool:
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(f"http://{address}/subjects", timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


def test_on_a_terminal_it_speaks_to_a_person(shop: str, tmp_path: Path) -> None:
    capture = name_of(shop)
    command = tidegate("serve", "--postgres", shop, "--set", f"slot.name={capture}", *ADDRESSES)
    terminal = Terminal([*command, "--data", str(tmp_path / "data")])
    try:
        shown = terminal.read_until("1 streaming")
        assert "Point clients at" in shown
        assert f"{capture}: 1 table: {capture}.public.items" in shown
        assert "snapshot done, 500 rows" in shown
        assert '{"event"' not in shown
        terminal.type("\x03")
        assert terminal.wait() == 0
    finally:
        terminal.close()
