"""Checks what a user wrote against the vocabulary, so that nothing is ever ignored in silence."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capture.options.vocabulary import (
    ACCEPTED,
    ACCEPTED_PATTERN,
    DEFERRED,
    DEFERRED_PATTERN,
    DRIVER_PROPERTY,
    HONOURED,
    RENAMED,
    WITHOUT_EFFECT,
)


class OptionError(ValueError):
    """Properties that cannot be honoured; one sentence for each, all of them at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Checked:
    """All honoured properties with their values, those given by the user, those accepted without effect."""

    values: Mapping[str, Any]
    given: frozenset[str]
    accepted: tuple[str, ...]


def known_names() -> list[str]:
    """Every name that may be written, for suggestions and documentation."""
    return sorted(HONOURED.keys() | ACCEPTED | DEFERRED.keys() | RENAMED.keys())


def check(properties: Mapping[str, object], source: str = "") -> Checked:
    """Read properties as given by a user; raise OptionError with everything that is wrong."""
    values = {
        name: None if item.default is None else item.read(item.default) for name, item in HONOURED.items()
    }
    given: set[str] = set()
    accepted: list[str] = []
    problems: list[str] = []
    for written, raw in properties.items():
        name, value = _modern(written, as_text(raw))
        if name in given:
            problems.append(f'"{written}" and "{name}" are two names of one property; set one of them')
        elif name in HONOURED:
            given.add(name)
            _read(name, value, values, problems)
        elif name in ACCEPTED or name in WITHOUT_EFFECT or ACCEPTED_PATTERN.fullmatch(name):
            accepted.append(name)
        elif name in DEFERRED:
            if not _same(value, DEFERRED[name]):
                problems.append(_deferred(name, DEFERRED[name]))
        elif DEFERRED_PATTERN.fullmatch(name):
            problems.append(_deferred(name, None))
        elif DRIVER_PROPERTY.fullmatch(name) and not _nearest(name, cutoff=0.85):
            accepted.append(name)
        else:
            problems.append(_unknown(name))
    if problems:
        raise OptionError([f"{source}: {problem}" if source else problem for problem in problems])
    return Checked(values, frozenset(given), tuple(accepted))


def as_text(value: object) -> str:
    """A property's value as Debezium reads it; TOML and JSON may give numbers, booleans and lists."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(as_text(item) for item in value)
    return "" if value is None else str(value).strip()


def _modern(name: str, value: str) -> tuple[str, str]:
    if name == "sanitize.field.names":
        return "field.name.adjustment.mode", {"true": "avro", "false": "none"}.get(value.lower(), value)
    if name == "snapshot.mode" and value.lower() == "never":
        return name, "no_data"
    return RENAMED.get(name, name), value


def _read(name: str, value: str, values: dict[str, Any], problems: list[str]) -> None:
    shown = "" if name in ("database.password", "database.sslpassword") else f' = "{value}"'
    if re.match(r"\$\{\w+:", value):
        problems.append(
            f'"{name}"{shown} refers to a config provider of Kafka Connect; give the value itself'
        )
        return
    if not value and HONOURED[name].default is None:
        return
    try:
        values[name] = HONOURED[name].read(value)
    except ValueError as error:
        problems.append(f'"{name}"{shown} {error}')


def _same(value: str, default: str | None) -> bool:
    return value.lower() == (default or "").lower()


def _deferred(name: str, default: str | None) -> str:
    only = f'only its default "{default}" is accepted' if default else "leave it out"
    return f'"{name}" is not honoured yet; {only}'


def _unknown(name: str) -> str:
    near = _nearest(name, cutoff=0.6)
    return f'"{name}" is no known property' + (f'; did you mean "{near}"?' if near else "")


def _nearest(name: str, *, cutoff: float) -> str | None:
    found = difflib.get_close_matches(name, known_names(), n=1, cutoff=cutoff)
    return found[0] if found else None
