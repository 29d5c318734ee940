"""Options that several commands share, and the configuration that they and the environment add up to."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gateway.config import (
    URL_KEY,
    CaptureConfig,
    Config,
    ConfigError,
    Override,
    load,
    property_text,
)

if TYPE_CHECKING:
    from capture.log import Log
    from capture.options import CaptureOptions

Command = TypeVar("Command", bound=Callable[..., Any])


class Refusal(click.ClickException):
    """Ends the command with one sentence on stderr and exit code 1."""


class UsageRefusal(Refusal):
    """The same for what was asked for wrongly: exit code 2."""

    exit_code = 2


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Turn errors that a user can mend into a sentence and an exit code: 2 for settings, 1 for the rest."""
    from capture.log import LogError
    from capture.options import OptionError

    try:
        yield
    except (ConfigError, OptionError) as error:
        raise UsageRefusal(str(error)) from error
    except LogError as error:
        raise Refusal(str(error)) from error


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

_CONFIG_OPTION = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    envvar="TIDEGATE_CONFIG",
    metavar="FILE",
    help="TOML file with [log], [gateway], [supervisor] and [capture.NAME] tables; also TIDEGATE_CONFIG.",
)
_DATA_OPTION = click.option(
    "--data", metavar="DIR", help="Directory of the change log.  [default: tidegate-data]"
)
_LISTEN_OPTIONS = (
    click.option("--kafka", metavar="HOST:PORT", help="Kafka listener.  [default: 127.0.0.1:9092]"),
    click.option("--registry", metavar="HOST:PORT", help="Schema Registry.  [default: 127.0.0.1:8081]"),
    click.option("--admin", metavar="HOST:PORT", help="Metrics and health.  [default: 127.0.0.1:9644]"),
    click.option(
        "--advertised",
        metavar="HOST:PORT",
        help="What Kafka clients are told to connect to, where it differs from --kafka.",
    ),
)
_CAPTURE_OPTIONS = (
    click.option(
        "--postgres",
        metavar="URL",
        help="Database to capture: postgresql://user@host:5432/database. Other local users can see a "
        "command line, so give the password by a passfile (~/.pgpass), or the whole URL by the variable "
        "TIDEGATE_CAPTURE__NAME__POSTGRES.",
    ),
    click.option(
        "--tables",
        metavar="LIST",
        help="Debezium's table.include.list: regular expressions for schema.table, separated by commas.",
    ),
    click.option(
        "--set",
        "assignments",
        metavar="NAME=VALUE",
        multiple=True,
        help="Set a property of the capture, by Debezium's name. May be repeated.",
    ),
    click.option(
        "--debezium-config",
        "connector_file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A Debezium connector's configuration (JSON, or .properties) as the capture's.",
    ),
)
_NAME_OPTION = click.option(
    "--name",
    metavar="NAME",
    help="Name of the capture given by --postgres or --debezium-config.  [default: the connector's name, "
    "else topic.prefix, else the database]",
)


def _decorated(command: Command, options: Sequence[Callable[[Command], Command]]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def data_options(command: Command) -> Command:
    """--config and --data, for the commands that only look at a data directory."""
    return _decorated(command, (_CONFIG_OPTION, _DATA_OPTION))


def gateway_options(command: Command) -> Command:
    """The above and what the gateway listens on."""
    return _decorated(command, (_CONFIG_OPTION, _DATA_OPTION, *_LISTEN_OPTIONS))


def capture_options(command: Command) -> Command:
    """--config, --data and what to capture; the capture's name is the command's own argument."""
    return _decorated(command, (*_CAPTURE_OPTIONS, _CONFIG_OPTION, _DATA_OPTION))


def service_options(command: Command) -> Command:
    """All of them."""
    return _decorated(
        command, (*_CAPTURE_OPTIONS, _NAME_OPTION, _CONFIG_OPTION, _DATA_OPTION, *_LISTEN_OPTIONS)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What the shared options were given; a command fills those that it has."""

    config_file: Path | None = None
    data: str | None = None
    kafka: str | None = None
    registry: str | None = None
    admin: str | None = None
    advertised: str | None = None
    postgres: str | None = None
    tables: str | None = None
    assignments: tuple[str, ...] = ()
    connector_file: Path | None = None
    name: str | None = None


def configuration(arguments: Arguments) -> Config:
    """Defaults, file, environment and command line together.

    Raises ConfigError or OptionError.
    """
    overrides = [
        Override(key=key, text=text, source=f"--{key.partition('.')[2]}")
        for key, text in (
            ("log.data", arguments.data),
            ("gateway.kafka", arguments.kafka),
            ("gateway.registry", arguments.registry),
            ("gateway.admin", arguments.admin),
            ("gateway.advertised", arguments.advertised),
        )
        if text is not None
    ]
    given = _given_properties(arguments)
    environment = dict(os.environ)
    from gateway.cli.connection_url import connection_properties

    def loaded(*captures: CaptureConfig) -> Config:
        return load(
            file=arguments.config_file,
            environment=environment,
            overrides=overrides,
            captures=captures,
            expand_url=connection_properties,
        )

    # The configuration without the command line's capture says which captures there are to add it to.
    config = loaded()
    if given or arguments.name:
        name = _capture_name(arguments, given, config)
        capture = CaptureConfig(
            name=name,
            properties={key: text for key, (text, _) in given.items()},
            sources={key: source for key, (_, source) in given.items()},
        )
        config = loaded(capture)
    return config


def _given_properties(arguments: Arguments) -> dict[str, tuple[str, str]]:
    """The command line's properties as name to (text, source), the more particular option over the other."""
    given: dict[str, tuple[str, str]] = {}
    if arguments.connector_file is not None:
        from capture.options import read_file

        source = f"--debezium-config {arguments.connector_file}"
        for key, value in read_file(arguments.connector_file).items():
            given[key] = (property_text(value), source)
    if arguments.postgres is not None:
        from gateway.cli.connection_url import connection_properties

        for key, text in connection_properties(arguments.postgres, "--postgres").items():
            given[key] = (text, "--postgres")
    if arguments.tables is not None:
        given["table.include.list"] = (arguments.tables, "--tables")
    for assignment in arguments.assignments:
        key, separator, text = assignment.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"--set {key!r}: write NAME=VALUE, as in --set slot.name=tidegate")
        if key.strip() == URL_KEY:
            raise ConfigError("--set postgres: give the URL by --postgres")
        given[key.strip()] = (text, f"--set {key.strip()}")
    return given


def _capture_name(arguments: Arguments, given: dict[str, tuple[str, str]], config: Config) -> str:
    if arguments.name is not None:
        return arguments.name
    if arguments.connector_file is None and arguments.postgres is None:
        if len(config.captures) == 1:
            return config.captures[0].name
        names = ", ".join(capture.name for capture in config.captures) or "none"
        raise ConfigError(
            f"--tables and --set: say by --name which capture they are for (configured: {names}), "
            "or give --postgres"
        )
    for key in ("name", "topic.prefix", "database.server.name", "database.dbname"):
        if key in given:
            return given[key][0]
    raise ConfigError("the capture has no name: give --name, or set topic.prefix or database.dbname")


def options_of(capture: CaptureConfig) -> CaptureOptions:
    """A capture's properties, checked and typed; raises OptionError naming every one that is not honoured."""
    from capture.options import CaptureOptions

    return CaptureOptions.parse(capture.properties, name=capture.name, source=f"capture {capture.name}")


def check_apart(options: Mapping[str, CaptureOptions]) -> None:
    """Raise ConfigError where two captures would write the same topics or read the same slot."""
    prefixes: dict[str, str] = {}
    slots: dict[tuple[str | None, int, str], str] = {}
    for name, each in options.items():
        prefix = each.envelope.topic_prefix
        other = prefixes.setdefault(prefix, name)
        if other != name:
            raise ConfigError(
                f"captures {other} and {name} both have topic.prefix {prefix!r}: give each one of its own"
            )
        slot = (each.connection.host, each.connection.port, each.slot.name)
        other = slots.setdefault(slot, name)
        if other != name:
            raise ConfigError(
                f"captures {other} and {name} both read slot {each.slot.name!r} of one server: slots are per "
                "server, so set slot.name in one of them"
            )


def open_log(config: Config) -> Log:
    """The existing change log of the configured data directory; Refusal if there is none."""
    from capture.log import Log, LogError

    data = config.log.data
    if not (data / "catalog.sqlite").exists():
        raise Refusal(
            f"{data}: no change log there; name its directory by --data, or run `tidegate serve` first"
        )
    try:
        return Log.open(data)
    except LogError as error:
        raise Refusal(str(error)) from error
