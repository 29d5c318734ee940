"""`tidegate capture NAME`: one capture's worker alone, in the foreground."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import click

from gateway.cli.settings import Arguments, capture_options, configuration, options_of, refusing


@click.command(name="capture")
@click.argument("name")
@capture_options
def command(name: str, **given: Any) -> None:
    """Run the capture NAME alone: from its database into the change log, until a signal ends it.

    NAME is a [capture.NAME] table of the configuration, or any name together with --postgres or
    --debezium-config. Exits with 75 where trying again may help. This process becomes `python -m capture`.
    """
    arguments = Arguments(**given)
    with refusing():
        if arguments.postgres or arguments.connector_file or arguments.assignments or arguments.tables:
            arguments = Arguments(**given, name=name)
        config = configuration(arguments)
        capture = config.capture(name)
        options_of(capture)
    from gateway.worker_process import capture_command, capture_stdin, child_environment

    # Its options go to the worker by stdin, through a file without a name, so that `ps` shows no secret.
    with tempfile.TemporaryFile() as options:
        options.write(capture_stdin(capture))
        options.seek(0)
        options.flush()
        os.dup2(options.fileno(), 0)
    worker = capture_command(name, config.log.data)
    os.execve(worker[0], worker, child_environment())
