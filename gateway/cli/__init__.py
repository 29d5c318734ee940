"""The command line `tidegate`. A command's module is imported only when it runs, so each starts fast."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

import click

COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "serve": "gateway.cli.serve",
        "gateway": "gateway.cli.gateway_command",
        "capture": "gateway.cli.capture_command",
        "doctor": "gateway.cli.doctor",
        "topics": "gateway.cli.topics",
        "captures": "gateway.cli.captures",
        "tail": "gateway.cli.tail",
        "config": "gateway.cli.config_command",
        "version": "gateway.cli.version",
        "demo": "gateway.cli.demo_command",
    }
)


class LazyGroup(click.Group):
    """A group whose commands are the `command` of a module each, imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of the command."""
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = import_module(module).command
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
def main() -> None:
    """Kafka consumers read your Postgres changes, and there is no Kafka.

    `tidegate serve --postgres postgresql://user@host/database` captures a database and serves its changes
    to any Kafka consumer, with a Schema Registry beside it. `tidegate demo` shows it on a database of its
    own.
    """
