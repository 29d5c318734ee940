"""The command line `tidegate`. A command's module is imported only when it runs, so each starts fast."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

import click

COMMANDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "serve": ("gateway.cli.serve", "Capture databases and serve their changes."),
        "gateway": ("gateway.cli.gateway_command", "Serve an existing change log alone."),
        "capture": ("gateway.cli.capture_command", "Run one capture alone."),
        "doctor": ("gateway.cli.doctor", "Say what a database lacks before it can be captured."),
        "topics": ("gateway.cli.topics", "List the topics."),
        "captures": ("gateway.cli.captures", "List the captures: phase, lag, rows."),
        "tail": ("gateway.cli.tail", "Print the records of a topic, decoded."),
        "config": ("gateway.cli.config_command", "Print every effective setting and its source."),
        "version": ("gateway.cli.version", "Print the version and the encoder in use."),
        "demo": ("gateway.cli.demo_command", "Show it on an embedded PostgreSQL."),
    }
)


class LazyGroup(click.Group):
    """A group whose commands are the `command` of a module each, imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of the command."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
def main() -> None:
    """Kafka consumers read your Postgres changes, and there is no Kafka.

    `tidegate serve --postgres postgresql://user@host/database` captures a database and serves its changes
    to any Kafka consumer, with a Schema Registry beside it. `tidegate demo` shows it on a database of its
    own. `tidegate COMMAND --help` says more of each.
    """
