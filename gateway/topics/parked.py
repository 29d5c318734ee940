"""Fetches that wait for records: parked by partition, woken by the commit itself, ended by their deadline.

Nothing here knows Kafka's messages or a transport; time comes from the event loop's `call_later`, which a
test replaces.
"""

import sqlite3
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, Protocol

from capture.log import LogError
from gateway.context import Later
from gateway.observe import Metrics
from gateway.topics.lookup import unreadable


class Timer(Protocol):
    """What `call_later` gives."""

    def cancel(self) -> None:
        """Do not call."""


CallLater = Callable[[float, Callable[[], None]], Timer]
"""Calls a function after so many seconds; `asyncio.AbstractEventLoop.call_later`."""


class ParkedFetch(Later[Any]):
    """A fetch without enough records yet. It ends by records, by its deadline, or early by `hurry`."""

    __slots__ = ("_answer", "_home", "partition_ids", "question", "timer")

    def __init__(
        self,
        home: "ParkedFetches",
        partition_ids: Collection[int],
        question: Hashable,
        answer: "Callable[[bool], Any | None]",
    ) -> None:
        super().__init__()
        self.partition_ids = partition_ids
        self.question = question
        self.timer: Timer | None = None
        self._home = home
        self._answer = answer

    def look(self) -> Any | None:
        """The response if there is enough for one by now, or the KafkaError if there can be none."""
        return self._ask(False)

    def end(self) -> None:
        """Resolve with what there is."""
        if self._home.remove(self):
            self.resolve(self._ask(True))

    def hurry(self) -> None:
        """The same connection asked something else: answer early, for `max_wait_ms` is a maximum."""
        self.end()

    def abandon(self) -> None:
        """The connection is gone."""
        self._home.remove(self)

    def _ask(self, anyway: bool) -> Any | None:
        """Without this, one that cannot be answered would keep those after it from their answers."""
        try:
            return self._answer(anyway)
        except (LogError, OSError, sqlite3.Error) as error:
            return unreadable(error)


class ParkedFetches:
    """All fetches that wait for records now."""

    def __init__(self, call_later: CallLater, metrics: Metrics) -> None:
        self._call_later = call_later
        self._metrics = metrics
        self._by_partition: dict[int, set[ParkedFetch]] = {}
        self._all: set[ParkedFetch] = set()

    def __len__(self) -> int:
        return len(self._all)

    def park(
        self,
        partition_ids: Collection[int],
        *,
        wait_ms: int,
        question: Hashable,
        answer: Callable[[bool], Any | None],
    ) -> ParkedFetch:
        """Wait up to `wait_ms` for records in any of the partitions.

        `answer(False)` gives a response if there is enough for one, else None; `answer(True)` gives one in
        any case. Fetches with the same `question` that are woken together share one response.
        """
        fetch = ParkedFetch(self, partition_ids, question, answer)
        self._all.add(fetch)
        for partition_id in partition_ids:
            self._by_partition.setdefault(partition_id, set()).add(fetch)
        fetch.timer = self._call_later(wait_ms / 1000, fetch.end)
        self._metrics.parked_fetches += 1
        return fetch

    def wake(self, partition_ids: Iterable[int]) -> None:
        """Records were committed to these partitions: answer every fetch that has enough now."""
        woken: dict[ParkedFetch, None] = {}
        for partition_id in partition_ids:
            if parked := self._by_partition.get(partition_id):
                woken.update(dict.fromkeys(parked))
        responses: dict[Hashable, Any] = {}
        for fetch in woken:
            if fetch not in self._all:
                continue
            if fetch.question in responses:
                response = responses[fetch.question]
            else:
                response = responses[fetch.question] = fetch.look()
            if response is not None:
                self.remove(fetch)
                fetch.resolve(response)

    def end_all(self) -> None:
        """Answer all with what there is: the gateway stops."""
        for fetch in list(self._all):
            fetch.end()

    def remove(self, fetch: ParkedFetch) -> bool:
        """Take a fetch out; False when it was out already."""
        if fetch not in self._all:
            return False
        self._all.discard(fetch)
        self._metrics.parked_fetches -= 1
        if fetch.timer is not None:
            fetch.timer.cancel()
        for partition_id in fetch.partition_ids:
            waiting = self._by_partition.get(partition_id)
            if waiting is not None:
                waiting.discard(fetch)
                if not waiting:
                    del self._by_partition[partition_id]
        return True
