"""Parked fetches against a clock that the test turns."""

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from gateway.observe import Metrics
from gateway.topics.parked import ParkedFetch, ParkedFetches
from protocol.errors import ErrorCode, KafkaError


class Timer:
    def __init__(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.delay_s = delay_s
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(delay_s, callback))
        return self.timers[-1]


class Asker:
    """Gives an answer once there are `wanted` records; counts how often it was asked."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.records = 0
        self.asked = 0

    def __call__(self, anyway: bool) -> str | None:
        self.asked += 1
        return f"{self.records} records" if anyway or self.records >= self.wanted else None


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def parked(clock: Clock) -> ParkedFetches:
    return ParkedFetches(clock.call_later, Metrics())


def park(
    parked: ParkedFetches, asker: Asker, partition_ids: list[int], question: Any = None
) -> tuple[ParkedFetch, list[Any]]:
    answers: list[Any] = []
    fetch = parked.park(partition_ids, wait_ms=500, question=question or object(), answer=asker)
    fetch.then(answers.append)
    return fetch, answers


def test_a_commit_to_one_of_its_partitions_answers(parked: ParkedFetches, clock: Clock) -> None:
    asker = Asker(wanted=1)
    _, answers = park(parked, asker, [1, 2])
    asker.records = 1
    parked.wake({3})
    assert (answers, len(parked), asker.asked) == ([], 1, 0)
    parked.wake({2, 3})
    assert (answers, len(parked)) == (["1 records"], 0)
    assert clock.timers[0].cancelled
    parked.wake({1, 2, 3})
    assert answers == ["1 records"]


def test_too_little_keeps_it_waiting(parked: ParkedFetches) -> None:
    asker = Asker(wanted=3)
    _, answers = park(parked, asker, [1])
    asker.records = 2
    parked.wake({1})
    assert (answers, len(parked)) == ([], 1)
    asker.records = 3
    parked.wake({1})
    assert (answers, len(parked)) == (["3 records"], 0)


def test_the_deadline_answers_with_what_there_is(parked: ParkedFetches, clock: Clock) -> None:
    asker = Asker(wanted=3)
    _, answers = park(parked, asker, [1])
    assert clock.timers[0].delay_s == 0.5
    asker.records = 2
    clock.timers[0].callback()
    assert (answers, len(parked)) == (["2 records"], 0)
    clock.timers[0].callback()
    assert answers == ["2 records"]


def test_hurry_answers_now_and_abandon_never(parked: ParkedFetches, clock: Clock) -> None:
    hurried, answers = park(parked, Asker(wanted=1), [1])
    gone, silence = park(parked, Asker(wanted=1), [1])
    hurried.hurry()
    gone.abandon()
    parked.wake({1})
    assert (answers, silence, len(parked)) == (["0 records"], [], 0)
    assert all(timer.cancelled for timer in clock.timers)


def test_the_same_question_is_asked_once(parked: ParkedFetches) -> None:
    asker = Asker(wanted=1)
    waiting = [park(parked, asker, [1], question="same")[1] for _ in range(10)]
    other = Asker(wanted=1)
    other_answers = park(parked, other, [1], question="other")[1]
    asker.records = other.records = 1
    parked.wake({1})
    assert (asker.asked, other.asked) == (1, 1)
    assert waiting == [["1 records"]] * 10
    assert other_answers == ["1 records"]


def test_who_is_answered_may_park_again_at_once(parked: ParkedFetches) -> None:
    asker = Asker(wanted=1)
    fetch = parked.park([1], wait_ms=500, question="first", answer=asker)
    again: list[ParkedFetch] = []
    fetch.then(lambda _: again.append(parked.park([1], wait_ms=500, question="second", answer=Asker(9))))
    asker.records = 1
    parked.wake({1})
    assert (len(again), len(parked)) == (1, 1)


def test_an_answer_that_ends_another(parked: ParkedFetches) -> None:
    asker = Asker(wanted=1)
    first = parked.park([1], wait_ms=500, question="a", answer=asker)
    second, answers = park(parked, asker, [1], question="b")
    first.then(lambda _: second.abandon())
    second.then(answers.append)
    asker.records = 1
    parked.wake({1})
    assert len(parked) == 0
    assert len(answers) <= 1


def test_the_end_answers_all(parked: ParkedFetches) -> None:
    waiting = [park(parked, Asker(wanted=1), [number])[1] for number in range(5)]
    parked.end_all()
    assert waiting == [["0 records"]] * 5
    assert len(parked) == 0


@pytest.mark.parametrize("failure", [OSError(24, "Too many open files"), sqlite3.OperationalError("locked")])
def test_one_that_cannot_be_answered_is_refused_and_others_are_answered(
    parked: ParkedFetches, clock: Clock, failure: Exception
) -> None:
    def fail(anyway: bool) -> str:
        raise failure

    outcomes: list[Any] = []
    for _ in range(3):
        parked.park([1], wait_ms=500, question=object(), answer=fail).then(outcomes.append)
    sound = Asker(wanted=0)
    _, answers = park(parked, sound, [1])
    parked.wake({1})
    assert answers == ["0 records"]
    parked.park([1], wait_ms=500, question="late", answer=fail).then(outcomes.append)
    clock.timers[-1].callback()
    assert [type(outcome) for outcome in outcomes] == [KafkaError] * 4
    assert {outcome.code for outcome in outcomes} == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert len(parked) == 0
