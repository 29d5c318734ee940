"""The service's configuration: frozen sections filled from defaults, a TOML file, the environment and the
command line, in that order, each value remembered with the place it came from.

An unknown key is an error that names the key and its source. A capture's options are Debezium's own property
names and pass through untouched (`capture.options` judges them); the one addition is `postgres`, a connection
URL that stands for the `database.*` properties (`gateway.cli.connection_url`).
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

DEFAULT: Final = "default"
ENVIRONMENT_PREFIX: Final = "TIDEGATE_"
URL_KEY: Final = "postgres"

_CAPTURE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_SECRET_NAME = re.compile(r"password|passwd|secret|credential|token|user\.info|sasl\.jaas", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(?P<head>[a-z][a-z0-9+.-]*://[^:/?#@\s]*:)[^@/\s]*(?=@)", re.IGNORECASE)
_QUERY_PASSWORD = re.compile(
    r"(?P<head>\b(?:ssl)?password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^&\s]+)", re.IGNORECASE
)
MASK: Final = "********"


ExpandUrl = Callable[[str, str], Mapping[str, str]]
"""From a connection URL and the place it came from to the `database.*` properties that it stands for."""


class ConfigError(ValueError):
    """A setting is unknown or wrong; the message names it and where it was set."""


@dataclass(frozen=True, slots=True)
class Address:
    """A host and TCP port to listen on or to reach; port 0 asks the system for a free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "127.0.0.1:9092" or "[::1]:9092"; raise ValueError on anything else."""
        host, colon, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError(f"{text!r}: write an IPv6 address in brackets, like [::1]:9092")
        if not colon or not host:
            raise ValueError(
                f"{text!r} is no HOST:PORT; write 127.0.0.1:9092 for this machine only, 0.0.0.0:9092 for all"
            )
        if not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise ValueError(f"{text!r}: the port must be a number from 0 to 65535")
        return cls(host, int(port))

    @property
    def wildcard(self) -> bool:
        """Whether it means "every interface", which no client can be told to connect to."""
        return self.host in ("0.0.0.0", "::")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Where the change log lives."""

    data: Path = Path("tidegate-data")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """What the gateway listens on, and what it tells Kafka clients to connect to."""

    kafka: Address = Address("127.0.0.1", 9092)
    registry: Address = Address("127.0.0.1", 8081)
    admin: Address = Address("127.0.0.1", 9644)
    advertised: Address | None = None

    def __post_init__(self) -> None:
        if self.kafka.wildcard and self.advertised is None:
            raise ConfigError(
                f"gateway.kafka is {self.kafka}, every interface: set gateway.advertised to the HOST:PORT "
                "that Kafka clients reach this machine by"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorConfig:
    """How workers that end are brought back, and how long they may take to stop."""

    restart_backoff_ms: int = 200
    restart_backoff_max_ms: int = 30_000
    stop_timeout_ms: int = 15_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureConfig:
    """One capture: its name and its properties (Debezium's names), each with the place it came from."""

    name: str
    properties: Mapping[str, str]
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _CAPTURE_NAME.match(self.name):
            raise ConfigError(
                f"capture name {self.name!r}: use letters, digits, '.', '_' and '-', at most 100, "
                "beginning with a letter or digit"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that `tidegate` runs by; `sources` says of every "section.key" where its value came from."""

    log: LogConfig = LogConfig()
    gateway: GatewayConfig = GatewayConfig()
    supervisor: SupervisorConfig = SupervisorConfig()
    captures: tuple[CaptureConfig, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def capture(self, name: str) -> CaptureConfig:
        """Raises ConfigError when no capture of that name is configured."""
        for capture in self.captures:
            if capture.name == name:
                return capture
        known = ", ".join(capture.name for capture in self.captures) or "none"
        raise ConfigError(f"no capture named {name!r} is configured (configured: {known})")

    def settings(self) -> Iterator[tuple[str, str, str]]:
        """Every effective value as (key, text, source), secrets masked."""
        for section_name in _SECTIONS:
            section = getattr(self, section_name)
            for item in dataclasses.fields(section):
                key = f"{section_name}.{item.name}"
                value = getattr(section, item.name)
                yield key, "" if value is None else str(value), self.sources.get(key, DEFAULT)
        for capture in self.captures:
            for name, value in sorted(capture.properties.items()):
                key = f"capture.{capture.name}.{name}"
                yield key, masked(name, value), capture.sources.get(name, DEFAULT)


_SECTIONS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {"log": LogConfig, "gateway": GatewayConfig, "supervisor": SupervisorConfig}
)


def masked(name: str, value: str) -> str:
    """The value as it may be shown: secrets by name, and passwords inside URLs and connection strings."""
    if _SECRET_NAME.search(name) and value:
        return MASK
    return without_passwords(value)


def without_passwords(text: str) -> str:
    """The text with the passwords of any URL or connection string in it masked."""
    return _QUERY_PASSWORD.sub(rf"\g<head>{MASK}", _URL_PASSWORD.sub(rf"\g<head>{MASK}", text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One setting of the command line: "section.key", its text, and the option it was given by."""

    key: str
    text: str
    source: str


def load(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Sequence[Override] = (),
    captures: Sequence[CaptureConfig] = (),
    expand_url: ExpandUrl | None = None,
) -> Config:
    """Put the layers together, the later over the earlier.

    `captures` are those of the command line; one with the name of a configured capture overrides its
    properties one by one. `expand_url` says which properties a connection URL stands for, so that later
    layers override them one by one, too. Raises ConfigError naming the first setting unknown or wrong.
    """
    values = _Values(expand_url)
    if file is not None:
        values.read_toml(file)
    values.read_environment(environment or {})
    for override in overrides:
        section, _, key = override.key.partition(".")
        values.put(section, key, override.text, override.source)
    for capture in captures:
        for name, text in capture.properties.items():
            values.put_property(capture.name, name, text, capture.sources.get(name, "command line"))
    return values.config()


class _Values:
    """Settings on their way to a Config: the last one put wins."""

    def __init__(self, expand_url: ExpandUrl | None) -> None:
        self._expand_url = expand_url
        self.sections: dict[str, dict[str, tuple[object, str]]] = {name: {} for name in _SECTIONS}
        self.captures: dict[str, dict[str, tuple[str, str]]] = {}

    def read_toml(self, file: Path) -> None:
        try:
            document = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"{file}: is not UTF-8 text") from error
        except tomllib.TOMLDecodeError as error:
            hint = ""
            if "overwrite" in str(error).lower() or "twice" in str(error).lower():
                hint = ' (where one property name begins with another, quote both: "value.converter" = …)'
            raise ConfigError(f"{file}: {error}{hint}") from error
        source = str(file)
        for section, content in document.items():
            if not isinstance(content, dict):
                raise ConfigError(f"unknown key {section!r} in {source}: settings stand in [sections]")
            if section != "capture":
                for key, value in content.items():
                    self.put(section, key, value, source)
                continue
            for name, properties in content.items():
                if not isinstance(properties, dict):
                    raise ConfigError(
                        f"{source}: write capture options in a table [capture.NAME], not in [capture]"
                    )
                self.captures.setdefault(name, {})
                for key, text in _flattened(properties, source=f"[capture.{name}] of {source}"):
                    self.put_property(name, key, text, source)

    def read_environment(self, environment: Mapping[str, str]) -> None:
        """TIDEGATE_SECTION__KEY, and TIDEGATE_CAPTURE__NAME__PROPERTY with "_" for the property's dots.

        Names with no double underscore belong to others (Kubernetes sets TIDEGATE_PORT and the like for a
        service of that name), unless one is plainly a setting written with a single underscore.
        """
        for variable, text in sorted(environment.items()):
            if not variable.startswith(ENVIRONMENT_PREFIX):
                continue
            rest = variable.removeprefix(ENVIRONMENT_PREFIX)
            source = f"environment variable {variable}"
            section, separator, key = rest.lower().partition("__")
            if not separator:
                self._refuse_single_underscore(rest.lower(), variable)
            elif section == "capture":
                name, separator, option = rest.partition("__")[2].partition("__")
                if not separator:
                    raise ConfigError(f"{source}: write TIDEGATE_CAPTURE__NAME__PROPERTY")
                self.put_property(self._capture_called(name), option.lower().replace("_", "."), text, source)
            else:
                self.put(section, key, text, source)

    @staticmethod
    def _refuse_single_underscore(rest: str, variable: str) -> None:
        for section, kind in _SECTIONS.items():
            for item in dataclasses.fields(kind):
                if rest == f"{section}_{item.name}":
                    meant = f"{ENVIRONMENT_PREFIX}{section}__{item.name}".upper()
                    raise ConfigError(f"unknown environment variable {variable}; did you mean {meant}?")

    def _capture_called(self, name: str) -> str:
        """The configured capture that an environment variable means; a new one is named in lower case."""
        wanted = name.lower()
        for known in self.captures:
            if re.sub(r"[.-]", "_", known.lower()) == wanted:
                return known
        return wanted

    def put(self, section: str, key: str, value: object, source: str) -> None:
        if section not in _SECTIONS:
            raise ConfigError(
                f"unknown section {section!r} in {source}{_nearest(section, (*_SECTIONS, 'capture'))}"
            )
        known = [item.name for item in dataclasses.fields(_SECTIONS[section])]
        if key not in known:
            raise ConfigError(f"unknown key {section}.{key} in {source}{_nearest(key, known)}")
        self.sections[section][key] = (value, source)

    def put_property(self, capture: str, name: str, text: str, source: str) -> None:
        properties = self.captures.setdefault(capture, {})
        if name == URL_KEY and self._expand_url is not None:
            for part, value in self._expand_url(text, source).items():
                properties[part] = (value, source)
        else:
            properties[name] = (text, source)

    def config(self) -> Config:
        sections: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for name, kind in _SECTIONS.items():
            arguments = {}
            for item in dataclasses.fields(kind):
                if item.name in self.sections[name]:
                    value, source = self.sections[name][item.name]
                    sources[f"{name}.{item.name}"] = source
                    arguments[item.name] = _parsed(f"{name}.{item.name}", str(item.type), value, source)
            sections[name] = kind(**arguments)
        captures = tuple(
            CaptureConfig(
                name=name,
                properties={key: text for key, (text, _) in properties.items()},
                sources={key: source for key, (_, source) in properties.items()},
            )
            for name, properties in self.captures.items()
        )
        return Config(**sections, captures=captures, sources=sources)


def _nearest(word: str, known: Sequence[str]) -> str:
    matches = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {matches[0]!r}?" if matches else f" (known: {', '.join(known)})"


def _parsed(key: str, kind: str, value: object, source: str) -> object:
    """The value of a section's field from TOML's or from text."""
    try:
        if kind == "int":
            if isinstance(value, bool) or not isinstance(value, int | str):
                raise ValueError("must be a whole number")
            number = int(value)
            if number < 0:
                raise ValueError("must not be negative")
            return number
        if not isinstance(value, str):
            raise ValueError("must be a text")
        if kind.startswith("Address"):
            return Address.parse(value)
        if not value:
            raise ValueError("must not be empty")
        return Path(value).expanduser()
    except ValueError as error:
        raise ConfigError(f"{key} = {value!r} in {source}: {error}") from error


def _flattened(table: Mapping[str, object], *, source: str, prefix: str = "") -> Iterator[tuple[str, str]]:
    """TOML's nested tables back to dotted property names."""
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict):
            yield from _flattened(value, source=source, prefix=f"{name}.")
        elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            raise ConfigError(f"{name} in {source}: a list may hold only plain values")
        else:
            yield name, property_text(value)


def property_text(value: object) -> str:
    """A property's value as Debezium reads it; lists become its comma-separated ones."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(property_text(item) for item in value)
    return str(value)
