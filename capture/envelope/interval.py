"""Postgres' intervals (`intervalstyle=postgres`) as a count or as ISO 8601 text (debezium/03 section 3)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from capture.envelope.errors import MalformedMessage
from capture.envelope.temporal import INT64_MAX, INT64_MIN, MICROSECONDS_PER_DAY, saturate

_INTERVAL: Final = re.compile(
    rb"(?:([+-]?\d{1,10}) years? ?)?(?:([+-]?\d{1,10}) mons? ?)?(?:([+-]?\d{1,10}) days? ?)?"
    rb"(?:([+-])?(\d{2,12}):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?",
    re.ASCII,
).fullmatch
#: A month counts 365.25 / 12 = 30.4375 days.
_MICROSECONDS_PER_MONTH: Final = 30_4375 * MICROSECONDS_PER_DAY // 10_000
_INFINITE: Final = {b"infinity": INT64_MAX, b"-infinity": INT64_MIN}


class Interval(NamedTuple):
    """The parts Postgres prints, each with its own sign; `microseconds` is the fraction of a second."""

    years: int
    months: int
    days: int
    hours: int
    minutes: int
    seconds: int
    microseconds: int


def parse_interval(text: bytes) -> Interval:
    """A finite interval."""
    match = _INTERVAL(text) if text else None
    if match is None:
        raise MalformedMessage(
            "Postgres sent an interval that is not in its own style (intervalstyle=postgres)"
        )
    years, months, days, sign, hours, minutes, seconds, fraction = match.groups()
    direction = -1 if sign == b"-" else 1
    return Interval(
        int(years or 0),
        int(months or 0),
        int(days or 0),
        direction * int(hours or 0),
        direction * int(minutes or 0),
        direction * int(seconds or 0),
        direction * int(fraction.ljust(6, b"0")) if fraction else 0,
    )


def interval_count(text: bytes) -> int:
    """Microseconds, saturated (`interval.handling.mode=numeric`)."""
    if text in _INFINITE:
        return _INFINITE[text]
    part = parse_interval(text)
    seconds = (part.hours * 60 + part.minutes) * 60 + part.seconds
    return saturate(
        (part.years * 12 + part.months) * _MICROSECONDS_PER_MONTH
        + part.days * MICROSECONDS_PER_DAY
        + seconds * 1_000_000
        + part.microseconds
    )


def interval_text(text: bytes) -> str:
    """`P1Y2M3DT4H5M6.78S`: all parts always, a sign per part, no trailing zeros (`string`)."""
    if text in _INFINITE:
        return text.decode()
    part = parse_interval(text)
    seconds = str(part.seconds)
    if part.microseconds:
        sign = "-" if part.microseconds < 0 else ""
        seconds = f"{sign}{abs(part.seconds)}.{abs(part.microseconds):06d}".rstrip("0")
    return f"P{part.years}Y{part.months}M{part.days}DT{part.hours}H{part.minutes}M{seconds}S"
