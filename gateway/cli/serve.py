"""`tidegate serve`: capture databases and serve their changes, everything supervised in the foreground."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.settings import (
    Arguments,
    Refusal,
    UsageRefusal,
    check_apart,
    configuration,
    json_option,
    options_of,
    refusing,
    service_options,
)
from gateway.worker_process import WorkerProcess, start_held_gateway

if TYPE_CHECKING:
    from capture.options import CaptureOptions
    from capture.postgres.doctor import Finding
    from gateway.config import Config
    from gateway.supervisor import Endpoints

    Findings = Mapping[str, Sequence[Finding]]

_PASSING_S: Final = 5.0
_LOOK_AGAIN_S: Final = 0.25


@click.command(name="serve")
@service_options
@json_option
@click.option("--verbose", "-v", is_flag=True, help="Show all that the workers log, not only warnings.")
@click.option("--no-doctor", is_flag=True, help="Start without examining the databases first.")
def command(as_json: bool, verbose: bool, no_doctor: bool, **given: Any) -> None:
    """Capture databases and serve their changes over the Kafka protocol, with a Schema Registry beside it.

    One worker process captures each database, one gateway process serves them all; a worker that dies is
    started again. Before anything starts, the databases are examined as `tidegate doctor` does. With --json,
    or where standard output is no terminal, JSON lines are printed: "ready" first, then "status" lines.

    \b
    Examples:
      tidegate serve --postgres postgresql://app@localhost/shop --tables 'public.*'
      tidegate serve --config tidegate.toml
      tidegate serve --debezium-config connector.json --data /var/lib/tidegate
    """
    held = start_held_gateway()
    try:
        _start(held, Arguments(**given), as_json=as_json, verbose=verbose, no_doctor=no_doctor)
    finally:
        held.discard()


def _start(
    held: WorkerProcess, arguments: Arguments, *, as_json: bool, verbose: bool, no_doctor: bool
) -> None:
    """All that comes before the first worker: the configuration, and what the databases lack."""
    with refusing():
        config = configuration(arguments)
        options = {capture.name: options_of(capture) for capture in config.captures}
        check_apart(options)
    if not options:
        raise UsageRefusal(
            "nothing to capture: give --postgres URL or --debezium-config FILE, or [capture.NAME] tables by "
            "--config (to serve an existing change log alone, run `tidegate gateway`)"
        )
    as_json = as_json or not sys.stdout.isatty()
    findings: Findings = {} if no_doctor else _examined(options, as_json=as_json)
    serve(config, options, findings, held, as_json=as_json, verbose=verbose)


def _examined(options: Mapping[str, CaptureOptions], *, as_json: bool) -> Findings:
    """What is worth knowing of the databases; refuses to start where a capture could not."""
    from gateway.cli.doctor import examined, has_error, passing, show

    findings = examined(options)
    deadline = time.monotonic() + _PASSING_S
    while passing(findings) and time.monotonic() < deadline:
        # A database that is starting, or a slot that a killed predecessor still holds for a moment.
        time.sleep(_LOOK_AGAIN_S)
        findings = examined(options)
    failed = has_error(findings)
    if failed and as_json:
        for event in finding_events(findings):
            click.echo(json.dumps(event, ensure_ascii=False))
    if failed or not as_json:
        show(findings, stderr=failed)
    if failed:
        raise Refusal("nothing was started: mend the above, then start again")
    return findings


def finding_events(findings: Findings) -> Iterator[dict[str, object]]:
    """What the examination found, as JSON lines."""
    for name, found in findings.items():
        for finding in found:
            yield {"event": "finding", "capture": name, **asdict(finding)}


def serve(
    config: Config,
    options: Mapping[str, CaptureOptions],
    findings: Findings,
    held: WorkerProcess,
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    """Run the service until a signal; raises Refusal when the gateway or the log cannot start."""
    import asyncio

    from capture.log import Log
    from gateway.cli.reporters import HumanReporter, JsonReporter, ServiceReporter
    from gateway.cli.run_service import run_service
    from gateway.supervisor import SupervisorError

    with refusing():
        log = Log.open(config.log.data, create=True)
    reporter: ServiceReporter
    if as_json:
        reporter = JsonReporter(list(options), config.log.data, after_ready=finding_events(findings))
    else:
        reporter = HumanReporter(lambda endpoints: described(config, options, endpoints), verbose=verbose)
    try:
        with reporter:
            asyncio.run(run_service(config, log, reporter, held=held))
    except SupervisorError as error:
        raise Refusal(str(error)) from error


def described(config: Config, options: Mapping[str, CaptureOptions], endpoints: Endpoints) -> str:
    """What is captured and where to point clients, as shown once on a terminal."""
    lines = ["", "Tidegate captures"]
    for name, each in options.items():
        topics = f"{each.envelope.topic_prefix}.*"
        lines.append(f"  {name:<12} {each.connection.address}  to topics {topics}")
    lines += [
        f"  into {config.log.data.resolve()}",
        "",
        "Point clients at",
        f"  Kafka        {endpoints.kafka}",
        f"  registry     http://{endpoints.registry}",
        f"  admin        http://{endpoints.admin}/metrics",
        "",
        f"Try  kcat -b {endpoints.kafka} -L",
        "End with Ctrl-C.",
        "",
    ]
    return "\n".join(lines)
