"""`tidegate doctor`: what a database lacks before it can be captured, and the statement that mends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.output import console, print_json
from gateway.cli.settings import (
    Arguments,
    UsageRefusal,
    check_apart,
    configuration,
    json_option,
    options_of,
    refusing,
    service_options,
)

if TYPE_CHECKING:
    from capture.options import CaptureOptions
    from capture.postgres.doctor import Finding

ERROR: Final = "error"
_PARALLEL: Final = 8
_STYLES: Final = {ERROR: "bold red", "warning": "yellow"}


@click.command(name="doctor")
@service_options
@json_option
def command(as_json: bool, **given: Any) -> None:
    """Say what the databases lack before they can be captured: what, where, and the statement that mends it.

    Changes nothing. Exits with 1 if a capture could not start.
    """
    with refusing():
        config = configuration(Arguments(**given))
        options = {capture.name: options_of(capture) for capture in config.captures}
        check_apart(options)
    if not options:
        raise UsageRefusal("nothing to examine: give --postgres URL, or [capture.NAME] tables by --config")
    findings = examined(options)
    if as_json:
        print_json({name: [asdict(finding) for finding in found] for name, found in findings.items()})
    else:
        show(findings)
        for name, found in findings.items():
            if not found:
                click.echo(f"{name}: ready to be captured")
    if has_error(findings):
        raise click.exceptions.Exit(1)


def examined(options: Mapping[str, CaptureOptions]) -> dict[str, list[Finding]]:
    """What each capture's database lacks, by the capture's name; several databases at the same time."""
    from capture.postgres.doctor import examine

    if len(options) == 1:
        return {name: examine(each) for name, each in options.items()}
    with ThreadPoolExecutor(min(len(options), _PARALLEL)) as pool:
        return dict(zip(options, pool.map(examine, options.values()), strict=True))


def has_error(findings: Mapping[str, Sequence[Finding]]) -> bool:
    """Whether any capture could not start."""
    return any(finding.severity == ERROR for found in findings.values() for finding in found)


def passing(findings: Mapping[str, Sequence[Finding]]) -> bool:
    """Whether there are errors, and all of them may pass by themselves."""
    errors = [each for found in findings.values() for each in found if each.severity == ERROR]
    return bool(errors) and all(error.retry for error in errors)


def show(findings: Mapping[str, Sequence[Finding]], *, stderr: bool = False) -> None:
    """For people: one paragraph a finding, its statement on lines of its own so that it can be copied."""
    from rich.text import Text

    out = console(stderr=stderr)
    for name, found in findings.items():
        for finding in found:
            severity = str(finding.severity)
            text = Text.assemble((f"{severity}: ", _STYLES.get(severity, "bold")), f"{name}: {finding.what}")
            if finding.where:
                text.append(f"\n  where: {finding.where}")
            if finding.statement:
                text.append("\n  to mend it: " if severity == ERROR else "\n  statement: ")
                text.append(finding.statement.replace("\n", "\n    "), style="bold")
            out.print(text)
