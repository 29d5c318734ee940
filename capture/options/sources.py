"""Where properties are written down: a connector's JSON, a .properties file, a connection URL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from capture.options.properties import OptionError

# libpq's connection parameters and the properties that carry them.
_LIBPQ: Final[Mapping[str, str]] = {
    "host": "database.hostname",
    "port": "database.port",
    "user": "database.user",
    "password": "database.password",
    "dbname": "database.dbname",
    "sslmode": "database.sslmode",
    "sslcert": "database.sslcert",
    "sslkey": "database.sslkey",
    "sslpassword": "database.sslpassword",
    "sslrootcert": "database.sslrootcert",
}
_UNICODE_ESCAPE: Final = re.compile(r"\\(u([0-9A-Fa-f]{4})|.)", re.DOTALL)
_ESCAPED: Final[Mapping[str, str]] = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def from_url(url: str) -> dict[str, str]:
    """The connection properties that a postgresql:// URL (or libpq's `key=value` text) stands for."""
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        # libpq quotes what it could not read, which may hold the password.
        raise OptionError([f"not a postgresql:// URL: {_without_password(url)}"]) from error
    unknown = [name for name in parameters if name not in _LIBPQ]
    if unknown:
        names = ", ".join(unknown)
        known = ", ".join(_LIBPQ)
        raise OptionError([f"the connection URL carries {names}; supported are {known}"])
    return {_LIBPQ[name]: str(value) for name, value in parameters.items() if value is not None}


def read_file(path: Path) -> dict[str, object]:
    """Properties of a connector: JSON (`{"name", "config"}` or flat), or Java's .properties."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError([f"cannot read {path}: {error}"]) from error
    return read_json(text, str(path)) if path.suffix == ".json" else dict(read_properties(text, str(path)))


def read_json(text: str, source: str) -> dict[str, object]:
    """A connector's JSON: what Kafka Connect's REST interface takes, or just its `config`."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise OptionError([f"{source} is not JSON: {error}"]) from error
    if not isinstance(value, dict):
        raise OptionError([f"{source} holds no JSON object"])
    config = value.get("config")
    if not isinstance(config, dict):
        return value
    extra = sorted(value.keys() - {"name", "config", "tasks", "type", "initial_state"})
    if extra:
        raise OptionError([f"{source} has {', '.join(extra)} beside name and config"])
    return {"name": value["name"], **config} if "name" in value else dict(config)


def read_properties(text: str, source: str) -> Iterator[tuple[str, str]]:
    """The entries of a Java .properties file (java.util.Properties.load), in their order."""
    seen: set[str] = set()
    for line in _logical_lines(text):
        match = re.match(r"((?:\\.|[^\\=:\s])+)\s*[=:]?\s*(.*)", line, re.DOTALL)
        if match is None:
            raise OptionError([f"{source} has a line without a name: {line.split('=')[0]!r}"])
        name = _unescape(match[1])
        if name in seen:
            raise OptionError([f'{source} sets "{name}" twice'])
        seen.add(name)
        yield name, _unescape(match[2])


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blanks, joined where one ends in an odd number of backslashes."""
    joined = ""
    for raw in text.splitlines():
        line = raw.lstrip(" \t\f")
        if not joined and (not line or line[0] in "#!"):
            continue
        joined += line
        if (len(joined) - len(joined.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield joined
        joined = ""
    if joined:
        yield joined


def _unescape(text: str) -> str:
    return _UNICODE_ESCAPE.sub(lambda m: chr(int(m[2], 16)) if m[2] else _ESCAPED.get(m[1], m[1]), text)


def _without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
        if not parts.netloc:  # no scheme: a password may stand anywhere
            return "(unreadable)"
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))
    except ValueError:
        return "(unreadable)"
