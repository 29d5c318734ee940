"""The one thread that reads and writes committed offsets, so that the event loop never waits for a disk.

Jobs are done in the order in which they were given. Commits that came while the last transaction was synced
go into one transaction together: group commit without a timer. So a read sees every commit that was given
before it, which is more than `require_stable` of OffsetFetch asks for.
"""

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from capture.log import CommittedOffset, LogError
from protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

Partition = tuple[UUID, int]
"""Topic id and partition index."""
Offset = tuple[int, int, str | None]
"""Committed offset, leader epoch and metadata."""

_MAX_BATCH: Final = 1_000
"""Commits in one transaction; more only makes the first of them wait."""


class OffsetStore(Protocol):
    """What is asked of `capture.log.CommittedOffsets`."""

    def commit_all(self, commits: list[tuple[str, Mapping[Partition, Offset]]], now_ms: int) -> None:
        """Store the commits of several groups in one durable transaction."""

    def fetch(self, group: str) -> dict[Partition, CommittedOffset]:
        """All that a group committed."""

    def groups(self) -> list[str]:
        """The groups that have committed offsets."""

    def delete(self, group: str, partitions: list[Partition] | None = None) -> None:
        """Forget what a group committed, for some partitions or altogether."""


Result = TypeVar("Result")
Done = Callable[[Result | KafkaError], None]


class _Commit(NamedTuple):
    group_id: str
    offsets: Mapping[Partition, Offset]
    done: Done[None]


class _Job(NamedTuple):
    run: Callable[[OffsetStore], object]
    done: Done[object]


class OffsetThread:
    """Takes jobs from the event loop and calls back in it."""

    def __init__(
        self,
        store: OffsetStore,
        *,
        now_ms: Callable[[], int],
        call_in_loop: Callable[[Callable[[], None]], object],
    ) -> None:
        self.commits = 0
        """Number of OffsetCommits stored."""
        self.batches = 0
        """Number of transactions that they took."""
        self._store = store
        self._now_ms = now_ms
        self._call_in_loop = call_in_loop
        self._jobs: deque[_Commit | _Job] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._failing = False
        """Whether the last job could not reach the file: said once, not with every retry of every client."""
        self._thread = threading.Thread(target=self._work, name="committed-offsets", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def close(self) -> None:
        """Do what was given until now, then end; blocks until it is done."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def commit(self, group_id: str, offsets: Mapping[Partition, Offset], done: Done[None]) -> None:
        """Store offsets; `done` is called with None once they are durable, or with why they are not."""
        self._put(_Commit(group_id, offsets, done))

    def run(self, job: Callable[[OffsetStore], Result], done: Done[Result]) -> None:
        """Call `job` with the store in the thread; `done` with its result, or with why there is none."""
        self._put(_Job(job, done))  # type: ignore[arg-type]  # the job's result goes to its own `done` alone

    def _put(self, job: _Commit | _Job) -> None:
        with self._wake:
            if self._closing:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the gateway is stopping")
            self._jobs.append(job)
            self._wake.notify()

    def _work(self) -> None:
        while batch := self._next():
            answers = self._run(batch) if isinstance(batch, _Job) else self._commit(batch)
            self._call_in_loop(partial(_call_all, answers))

    def _next(self) -> _Job | list[_Commit] | None:
        """The next job, or all the commits that stand before the next job; None at the end."""
        with self._wake:
            self._wake.wait_for(lambda: self._jobs or self._closing)
            commits: list[_Commit] = []
            while self._jobs and len(commits) < _MAX_BATCH:
                if isinstance(self._jobs[0], _Job):
                    if not commits:
                        job = self._jobs.popleft()
                        assert isinstance(job, _Job)
                        return job
                    break
                commit = self._jobs.popleft()
                assert isinstance(commit, _Commit)
                commits.append(commit)
            return commits or None

    def _commit(self, commits: list[_Commit]) -> list[Callable[[], None]]:
        error = self._attempt(
            lambda store: store.commit_all([(one.group_id, one.offsets) for one in commits], self._now_ms())
        )
        if error is None:
            self.commits += len(commits)
            self.batches += 1
        return [partial(one.done, error) for one in commits]

    def _run(self, job: _Job) -> list[Callable[[], None]]:
        return [partial(job.done, self._attempt(job.run))]

    def _attempt(self, job: Callable[[OffsetStore], Result]) -> Result | KafkaError:
        """The job's result, or the error to answer with: a retriable one while the file is out of reach."""
        try:
            result = job(self._store)
        except (LogError, sqlite3.Error, OSError) as failure:
            if not self._failing:
                log.error(
                    "committed offsets are out of reach: check space and permissions of groups.sqlite",
                    extra={"problem": str(failure)},
                )
            self._failing = True
            return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(failure))
        except Exception:  # the thread's outermost loop: a bug ends one job, not the thread
            log.exception("job on committed offsets failed")
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if self._failing:
            log.info("committed offsets are within reach again")
        self._failing = False
        return result


def _call_all(answers: list[Callable[[], None]]) -> None:
    for answer in answers:
        answer()
