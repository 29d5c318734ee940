"""Lines to copy that point stock clients at a running service; each works as printed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.supervisor import Endpoints

_EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"


def lines(endpoints: Endpoints, topic: str, *, cwd: Path | None = None) -> Iterator[tuple[str, str]]:
    """(client, line) for kcat, Spark and ClickHouse; the last two run the programs of `examples/`.

    The paths are relative to `cwd` (default: the current directory) where they lie below it.
    """
    yield "kcat", f"kcat -C -b {endpoints.kafka} -t {topic} -o -5 -e -f 'offset %o, key %K B, value %S B\\n'"
    where = f"--kafka {endpoints.kafka} --registry http://{endpoints.registry} --topic {topic}"
    for client, program in (("Spark", "spark/changes.py"), ("ClickHouse", "clickhouse/replica.py")):
        path = _EXAMPLES / program
        if path.exists():
            yield client, f"{short(Path(sys.executable), cwd)} {short(path, cwd)} {where}"


def short(path: Path, cwd: Path | None = None) -> str:
    """A path from the current directory where it lies below it."""
    try:
        return str(path.relative_to(cwd or Path.cwd()))
    except ValueError:
        return str(path)
