"""`tidegate gateway`: the gateway process alone, in the foreground."""

from __future__ import annotations

import os
from typing import Any

import click

from gateway.cli.settings import Arguments, configuration, gateway_options, refusing


@click.command(name="gateway")
@gateway_options
def command(**given: Any) -> None:
    """Serve an existing change log alone: Kafka listener, Schema Registry and admin port.

    Captures run apart (`tidegate capture NAME`); the two share only the data directory. Prints one JSON line
    with the addresses when it answers. This process becomes `python -m gateway`.
    """
    with refusing():
        config = configuration(Arguments(**given))
    from gateway.worker_process import child_environment, gateway_command

    arguments = gateway_command(config)
    os.execve(arguments[0], arguments, child_environment())
