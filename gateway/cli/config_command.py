"""`tidegate config`: every effective value and where it came from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from gateway.cli.output import print_json, print_table
from gateway.cli.settings import (
    Arguments,
    configuration,
    json_option,
    options_of,
    refusing,
    service_options,
)
from gateway.config import DEFAULT, CaptureConfig, Config


@click.command(name="config")
@service_options
@json_option
def command(as_json: bool, **given: Any) -> None:
    """Print every effective setting and where it came from, secrets masked.

    Precedence, the later over the earlier: defaults, the TOML file, the environment (TIDEGATE_SECTION__KEY,
    and TIDEGATE_CAPTURE__NAME__PROPERTY with "_" for the property's dots), the command line. A capture's
    properties that are not set are shown with their defaults.
    """
    with refusing():
        config = configuration(Arguments(**given))
        rows = list(_settings(config))
    if as_json:
        print_json({key: {"value": value, "source": source} for key, value, source in rows})
    else:
        print_table(("setting", "value", "from"), rows, empty="")


def _settings(config: Config) -> Iterator[tuple[str, str, str]]:
    yield from config.settings()
    for capture in config.captures:
        yield from _defaults(capture)


def _defaults(capture: CaptureConfig) -> Iterator[tuple[str, str, str]]:
    """The properties that a capture leaves at their defaults; those without a default are left out."""
    from capture.options.vocabulary import HONOURED, RENAMED

    given = {RENAMED.get(name, name) for name in capture.properties}
    defaults = {name: item.default for name, item in HONOURED.items() if name not in given}
    defaults["topic.prefix"] = options_of(capture).envelope.topic_prefix
    for name in sorted(defaults):
        value = defaults[name]
        if value is not None and name not in given:
            yield f"capture.{capture.name}.{name}", value, DEFAULT
