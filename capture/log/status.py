"""What captures publish for people and metrics: one small JSON file each, replaced as a whole.

It is no part of any commit and need not survive a power cut, so nothing here syncs.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

_SUFFIX = ".json"


class StatusFolder:
    """The newest status of every capture, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, capture: str, status: Mapping[str, object]) -> None:
        """Replace the status of `capture`."""
        path = self._folder / (quote(capture, safe="") + _SUFFIX)
        unfinished = path.with_suffix(f".{os.getpid()}.part")
        unfinished.write_text(json.dumps({"updated_ms": time.time_ns() // 1_000_000, "status": dict(status)}))
        unfinished.replace(path)

    def read(self) -> dict[str, tuple[int, dict[str, object]]]:
        """Each capture's newest status with the milliseconds since 1970 it was given at."""
        statuses: dict[str, tuple[int, dict[str, object]]] = {}
        try:
            paths = list(self._folder.iterdir())
        except FileNotFoundError:
            return {}
        for path in paths:
            if path.suffix != _SUFFIX:
                continue
            try:
                content = json.loads(path.read_text())
                statuses[unquote(path.stem)] = (content["updated_ms"], content["status"])
            except (FileNotFoundError, ValueError, KeyError):
                # Being replaced, or cut short by a power failure: the capture soon writes the next one.
                continue
        return statuses

    def texts(self) -> dict[str, str]:
        """Each capture's newest status as JSON text."""
        return {capture: json.dumps(status) for capture, (_, status) in self.read().items()}
