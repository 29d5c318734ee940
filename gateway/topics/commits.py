"""How commits reach who waits for them: the doorbell rings, the reader looks, parked fetches are answered."""

import asyncio
import logging
import sqlite3
from pathlib import Path
from typing import Final

from capture.log import Listener, LogError, LogReader
from gateway.topics.parked import ParkedFetches

log = logging.getLogger(__name__)

SAFETY_INTERVAL_S: Final = 1.0
"""A bell may be missed, and new topics ring none; so the catalog is looked at this often in any case."""


class CommitWatch:
    """Keeps a reader up to date, from `start` to `close`."""

    def __init__(self, data: Path, reader: LogReader, parked: ParkedFetches) -> None:
        self._bell = Listener(data)
        self._reader = reader
        self._parked = parked
        self._failing = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Listen in the running loop; what was committed since the reader looked last is taken up at once."""
        asyncio.get_running_loop().add_reader(self._bell.fileno(), self._on_bell)
        self._on_timer()

    def close(self) -> None:
        """Listen no more."""
        if self._timer is not None:
            self._timer.cancel()
        asyncio.get_running_loop().remove_reader(self._bell.fileno())
        self._bell.close()

    def _on_bell(self) -> None:
        self._bell.drain()
        self._look()

    def _on_timer(self) -> None:
        self._look()
        self._timer = asyncio.get_running_loop().call_later(SAFETY_INTERVAL_S, self._on_timer)

    def _look(self) -> None:
        try:
            changed = self._reader.refresh()
        except (LogError, sqlite3.Error) as error:
            # What is known stays served: a client must not see a topic vanish because the catalog did not
            # answer.
            if not self._failing:
                log.warning("the catalog does not answer", extra={"error": str(error)})
            self._failing = True
            return
        if self._failing:
            log.warning("the catalog answers again")
            self._failing = False
        if changed:
            self._parked.wake(changed)
