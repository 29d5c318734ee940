"""When committed offsets expire."""

import uuid

from capture.log.committed_offsets import CommittedOffset
from gateway.groups.retention import Life, Verdict, judge

DAY = 24 * 3600 * 1000
WEEK = 7 * DAY
NOW = 1_000 * DAY
TOPIC, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)


def verdict(age_ms: int, life: Life, topic: uuid.UUID = TOPIC) -> Verdict:
    offsets = {(topic, 0): CommittedOffset(5, 0, "", NOW - age_ms)}
    return judge(offsets, life, now_ms=NOW, retention_ms=WEEK)


KEEP = Verdict([], [])
EXPIRE = Verdict([], [(TOPIC, 0)])
REFRESH = Verdict([(TOPIC, 0)], [])


def test_offsets_of_a_living_group_never_expire_and_are_stamped_anew_once_a_day() -> None:
    life = Life(has_members=True)
    assert verdict(DAY - 1, life) == KEEP
    assert verdict(DAY, life) == REFRESH
    assert verdict(100 * DAY, life) == REFRESH
    assert verdict(100 * DAY, Life(has_members=True, subscribed=frozenset({TOPIC}))) == REFRESH


def test_a_topic_that_a_stable_group_no_longer_reads_expires() -> None:
    life = Life(has_members=True, subscribed=frozenset({OTHER}))
    assert verdict(WEEK - 1, life) == KEEP
    assert verdict(WEEK, life) == EXPIRE


def test_an_empty_group_keeps_its_offsets_for_a_week_from_its_last_member_on() -> None:
    assert verdict(100 * DAY, Life(empty_since_ms=NOW - WEEK + 1)) == KEEP
    assert verdict(100 * DAY, Life(empty_since_ms=NOW - WEEK)) == EXPIRE
    assert verdict(WEEK - 1, Life(empty_since_ms=NOW - 100 * DAY)) == KEEP


def test_after_a_restart_the_stamp_alone_counts_with_a_day_more() -> None:
    assert verdict(WEEK + DAY - 1, Life()) == KEEP
    assert verdict(WEEK + DAY, Life()) == EXPIRE
