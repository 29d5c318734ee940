"""The offsets' thread: order, batches, and what happens when the disk does not play along."""

import queue
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from capture.log.committed_offsets import CommittedOffset, CommittedOffsets
from gateway.groups.offset_thread import Offset, OffsetThread, Partition
from protocol.errors import ErrorCode, KafkaError

TOPIC = uuid.UUID(int=7)


class SlowStore:
    """A store whose commits wait for `go`, and fail while `broken`."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Event()
        self.broken: Exception | None = None
        self.batches: list[list[str]] = []

    def commit_all(self, commits: list[tuple[str, Mapping[Partition, Offset]]], now_ms: int) -> None:
        self.begun.set()
        assert self.go.wait(10)
        if self.broken is not None:
            raise self.broken
        self.batches.append([group for group, _ in commits])

    def fetch(self, group: str) -> dict[Partition, CommittedOffset]:
        raise NotImplementedError

    def groups(self) -> list[str]:
        return []

    def delete(self, group: str, partitions: list[Partition] | None = None) -> None:
        raise NotImplementedError


class Harness:
    """Runs callbacks of the thread where the test waits for them."""

    def __init__(self, store: SlowStore | CommittedOffsets) -> None:
        self.calls: queue.Queue[Callable[[], None]] = queue.Queue()
        self.thread = OffsetThread(store, now_ms=lambda: 123, call_in_loop=self.calls.put)
        self.thread.start()

    def turn(self) -> None:
        self.calls.get(timeout=10)()


@pytest.fixture
def slow() -> Iterator[tuple[SlowStore, Harness]]:
    store = SlowStore()
    harness = Harness(store)
    yield store, harness
    store.go.set()
    harness.thread.close()


def test_what_comes_during_a_sync_shares_the_next_one(slow: tuple[SlowStore, Harness]) -> None:
    store, harness = slow
    answers: list[object] = []
    harness.thread.commit("a", {}, answers.append)
    assert store.begun.wait(10)
    for name in "bcd":
        harness.thread.commit(name, {}, answers.append)
    harness.thread.run(lambda _: "read", answers.append)
    harness.thread.commit("e", {}, answers.append)
    store.go.set()
    for _ in range(4):
        harness.turn()
    assert store.batches == [["a"], ["b", "c", "d"], ["e"]]
    assert answers == [None, None, None, None, "read", None]
    assert (harness.thread.commits, harness.thread.batches) == (5, 3)


def test_a_store_out_of_reach_is_a_retriable_answer_and_said_once(
    slow: tuple[SlowStore, Harness], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    store, harness = slow
    store.go.set()
    answers: list[object] = []
    store.broken = sqlite3.OperationalError("disk I/O error")
    for _ in range(3):
        harness.thread.commit("a", {}, answers.append)
        harness.turn()
    store.broken = None
    harness.thread.commit("a", {}, answers.append)
    harness.turn()
    errors = [answer for answer in answers if isinstance(answer, KafkaError)]
    assert [error.code for error in errors] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    assert answers[-1] is None
    assert [record.message for record in caplog.records] == [
        "committed offsets are out of reach: check space and permissions of groups.sqlite",
        "committed offsets are within reach again",
    ]


def test_a_bug_in_one_job_ends_that_job_alone(
    slow: tuple[SlowStore, Harness], caplog: pytest.LogCaptureFixture
) -> None:
    _, harness = slow
    answers: list[object] = []
    harness.thread.run(lambda store: store.fetch("g"), answers.append)
    harness.turn()
    harness.thread.run(lambda _: 1, answers.append)
    harness.turn()
    assert isinstance(answers[0], KafkaError)
    assert answers[0].code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert answers[1] == 1
    assert "NotImplementedError" in caplog.text


def test_close_does_what_was_given_and_takes_nothing_more(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    store = CommittedOffsets(tmp_path)
    harness = Harness(store)
    for number in range(50):
        harness.thread.commit("g", {(TOPIC, 0): (number, 0, "")}, lambda error: None)
    harness.thread.close()
    assert store.fetch("g") == {(TOPIC, 0): CommittedOffset(49, 0, "", 123)}
    with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
        harness.thread.commit("g", {}, lambda error: None)
    store.close()
