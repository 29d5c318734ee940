"""`tidegate version`: which Tidegate this is, and which encoder it runs."""

from __future__ import annotations

import platform
from importlib import metadata

import click

from gateway.cli.output import print_json
from gateway.cli.settings import json_option


@click.command(name="version")
@json_option
def command(as_json: bool) -> None:
    """Print the version, and whether the compiled or the generated Python encoder is in use."""
    from capture.envelope import COMPILED

    encoder = "compiled" if COMPILED else "generated"
    if as_json:
        print_json({"version": version(), "encoder": encoder, "python": platform.python_version()})
        return
    click.echo(f"tidegate {version()}, {encoder} encoder, Python {platform.python_version()}")
    if not COMPILED:
        click.echo(
            "A C compiler was missing at installation; captures run slower without the compiled encoder."
        )


def version() -> str:
    """The installed distribution's version."""
    try:
        return metadata.version("tidegate")
    except metadata.PackageNotFoundError:
        return "0.1.0 (not installed)"
