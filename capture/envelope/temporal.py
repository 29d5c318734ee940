"""Dates and times: Postgres' ISO text and binary forms, counts, Java's ISO strings (debezium/03 section 3).

A date is days since 1970-01-01, a time of day microseconds, a timestamp the pair of both, so that nothing
overflows before it is written.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from capture.envelope.errors import MalformedMessage

Timestamp: TypeAlias = tuple[int, int]

MICROSECONDS_PER_DAY: Final = 86_400_000_000
#: Days from 1970-01-01 to 2000-01-01, Postgres' epoch.
POSTGRES_EPOCH_DAYS: Final = 10_957
#: The same in microseconds.
POSTGRES_EPOCH_US: Final = POSTGRES_EPOCH_DAYS * MICROSECONDS_PER_DAY

INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -(1 << 63)
INT32_MAX: Final = (1 << 31) - 1
INT32_MIN: Final = -(1 << 31)

#: What Debezium's stream writes for `infinity` and `-infinity` (debezium/12 no. 11: also in snapshots).
DATE_INFINITY: Final = {b"infinity": -2_147_472_692, b"-infinity": -2_147_472_691}
TIMESTAMP_INFINITY_MS: Final = {b"infinity": 9_223_372_036_825_200, b"-infinity": -9_223_372_036_832_400}

_DATE: Final = re.compile(rb"(\d{4,7})-(\d\d)-(\d\d)( BC)?", re.ASCII).fullmatch
_TIME: Final = re.compile(rb"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII).fullmatch
_ZONE: Final = rb"([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?"
_TIMETZ: Final = re.compile(rb"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?" + _ZONE, re.ASCII).fullmatch
_TIMESTAMP: Final = re.compile(
    rb"(\d{4,7})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?( BC)?", re.ASCII
).fullmatch
_TIMESTAMPTZ: Final = re.compile(
    rb"(\d{4,7})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?" + _ZONE + rb"( BC)?", re.ASCII
).fullmatch


def _malformed(what: str) -> MalformedMessage:
    return MalformedMessage(f"Postgres sent a {what} that is not in ISO form (datestyle=ISO)")


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar, astronomical years."""
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise _malformed("date")
    year -= month <= 2
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """The reverse: astronomical year, month, day."""
    days += 719_468
    era = days // 146_097
    day_of_era = days - era * 146_097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def _year(digits: bytes, bc: bytes | None) -> int:
    return 1 - int(digits) if bc else int(digits)


def _microseconds(hour: bytes, minute: bytes, second: bytes, fraction: bytes | None) -> int:
    hours, minutes, seconds = int(hour), int(minute), int(second)
    if hours > 24 or minutes > 59 or seconds > 60:
        raise _malformed("time")
    micros = int(fraction.ljust(6, b"0")) if fraction else 0
    return (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + micros


def _offset(sign: bytes, hours: bytes, minutes: bytes | None, seconds: bytes | None) -> int:
    """Microseconds east of UTC."""
    total = (int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)) * 1_000_000
    return -total if sign == b"-" else total


def parse_date(text: bytes) -> int:
    """Days since 1970-01-01 of a finite or infinite date."""
    if text in DATE_INFINITY:
        return DATE_INFINITY[text]
    match = _DATE(text)
    if match is None:
        raise _malformed("date")
    year, month, day, bc = match.groups()
    return days_from_civil(_year(year, bc), int(month), int(day))


def parse_time(text: bytes) -> int:
    """Microseconds of the day; 24:00:00 is allowed."""
    match = _TIME(text)
    if match is None:
        raise _malformed("time")
    return _microseconds(*match.groups())


def parse_timetz(text: bytes) -> int:
    """Microseconds of the day in UTC, within one day."""
    match = _TIMETZ(text)
    if match is None:
        raise _malformed("time with time zone")
    hour, minute, second, fraction, *zone = match.groups()
    return (_microseconds(hour, minute, second, fraction) - _offset(*zone)) % MICROSECONDS_PER_DAY


def parse_timestamp(text: bytes) -> Timestamp:
    """Days and microseconds of the day of a finite timestamp without time zone."""
    match = _TIMESTAMP(text)
    if match is None:
        raise _malformed("timestamp")
    year, month, day, hour, minute, second, fraction, bc = match.groups()
    days = days_from_civil(_year(year, bc), int(month), int(day))
    return _carry(days, _microseconds(hour, minute, second, fraction))


def parse_timestamptz(text: bytes) -> Timestamp:
    """The same with a time zone, in UTC."""
    match = _TIMESTAMPTZ(text)
    if match is None:
        raise _malformed("timestamp with time zone")
    year, month, day, hour, minute, second, fraction, sign, zh, zm, zs, bc = match.groups()
    days = days_from_civil(_year(year, bc), int(month), int(day))
    return _carry(days, _microseconds(hour, minute, second, fraction) - _offset(sign, zh, zm, zs))


def _carry(days: int, microseconds: int) -> Timestamp:
    extra, microseconds = divmod(microseconds, MICROSECONDS_PER_DAY)
    return days + extra, microseconds


def from_postgres_microseconds(value: int) -> Timestamp:
    """A binary timestamp: microseconds since 2000-01-01."""
    days, microseconds = divmod(value, MICROSECONDS_PER_DAY)
    return days + POSTGRES_EPOCH_DAYS, microseconds


def saturate(value: int) -> int:
    """Keep within int64: better than to overflow silently (debezium/12 no. 12)."""
    return min(max(value, INT64_MIN), INT64_MAX)


def timestamp_count(value: Timestamp, per_second: int) -> int:
    """Milli-, micro- or nanoseconds since 1970, rounded down, saturated."""
    days, microseconds = value
    if per_second == 1000:
        return days * 86_400_000 + microseconds // 1000
    scale = per_second // 1_000_000
    return saturate((days * MICROSECONDS_PER_DAY + microseconds) * scale)


def infinite_count(text: bytes, per_second: int) -> int:
    """The count that stands for an infinite timestamp without time zone."""
    if per_second == 1_000_000_000:
        return INT64_MAX if text == b"infinity" else INT64_MIN
    return TIMESTAMP_INFINITY_MS[text] * (per_second // 1000)


def infinite_timestamp(text: bytes) -> Timestamp:
    """The same as days and microseconds, for `isostring`."""
    return _carry(0, TIMESTAMP_INFINITY_MS[text] * 1000)


def iso_date(days: int) -> str:
    """LocalDate.toString: more than four digits of a year get a sign."""
    year, month, day = civil_from_days(days)
    if year < 0:
        text = f"-{-year:04d}"
    else:
        text = f"{year:04d}" if year <= 9999 else f"+{year}"
    return f"{text}-{month:02d}-{day:02d}"


def _clock(microseconds: int) -> str:
    seconds = microseconds // 1_000_000
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def iso_time(microseconds: int) -> str:
    """`HH:MM:SS[.f]Z` with trailing zeros of the fraction removed; 24:00:00 is 00:00:00Z."""
    microseconds %= MICROSECONDS_PER_DAY
    fraction = f".{microseconds % 1_000_000:06d}".rstrip("0").rstrip(".")
    return f"{_clock(microseconds)}{fraction}Z"


def iso_timestamp(value: Timestamp) -> str:
    """`uuuu-MM-ddTHH:MM:SS[.f]Z` with trailing zeros of the fraction removed."""
    return f"{iso_date(value[0])}T{iso_time(value[1])}"


def zoned_timestamp(value: Timestamp, precision: int) -> str:
    """The same with exactly `precision` digits of fraction."""
    days, microseconds = value
    fraction = f".{microseconds % 1_000_000:06d}"[: precision + 1] if precision else ""
    return f"{iso_date(days)}T{_clock(microseconds)}{fraction}Z"
