"""`tidegate demo`: a shop on an embedded PostgreSQL under load, captured, served, read back and proved."""

from __future__ import annotations

import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gateway.cli.settings import Refusal, json_option, refusing
from gateway.config import Address, CaptureConfig, Config, GatewayConfig, LogConfig

if TYPE_CHECKING:
    from gateway.demo.run import Demo

_RATE: Final = 20.0


@click.command(name="demo")
@click.option("--once", is_flag=True, help="Prove every topic against SQL, then end: 0 if all agree, else 1.")
@click.option("--kafka", metavar="HOST:PORT", help="Kafka listener.  [default: 127.0.0.1:9092 if free]")
@click.option("--registry", metavar="HOST:PORT", help="Schema Registry.  [default: 127.0.0.1:8081 if free]")
@click.option("--admin", metavar="HOST:PORT", help="Metrics and health.  [default: 127.0.0.1:9644 if free]")
@click.option(
    "--rate",
    type=click.FloatRange(0.1, 10_000),
    default=_RATE,
    show_default=True,
    help="Transactions a second that are written to the shop.",
)
@json_option
def command(
    once: bool, kafka: str | None, registry: str | None, admin: str | None, rate: float, as_json: bool
) -> None:
    """Show Tidegate on a database of its own: nothing needs to be installed or running.

    Starts an embedded PostgreSQL 18 with a small shop under a steady write load, captures and serves it, and
    shows the changes as a stock Kafka client reads them back. Ctrl-C ends all of it. With --once, folds
    every topic as that client reads it and compares it with the tables in SQL: the snapshot, then at least
    a hundred streamed changes.
    """
    import psycopg

    from gateway.demo.postgres import PostgresError
    from gateway.supervisor import SupervisorError

    home = Path(tempfile.mkdtemp(prefix="tidegate-demo-"))
    try:
        home.chmod(0o711)  # PostgreSQL may run as another user, below it
        with refusing():
            config = _config(home, kafka=kafka, registry=registry, admin=admin)
            proved = _demo(config, home, rate).run(once=once, as_json=as_json)
    except (PostgresError, SupervisorError, psycopg.Error) as error:
        raise Refusal(f"the demo failed: {error}") from error
    finally:
        shutil.rmtree(home, ignore_errors=True)
    if not proved:
        raise click.exceptions.Exit(1)


def _demo(config: Config, home: Path, rate: float) -> Demo:
    from gateway.demo.run import Demo

    return Demo(config, home / "postgres", rate=rate)


def _config(home: Path, *, kafka: str | None, registry: str | None, admin: str | None) -> Config:
    from gateway.demo.shop import DATABASE

    defaults = GatewayConfig()
    gateway = GatewayConfig(
        kafka=_address(kafka, defaults.kafka, "--kafka"),
        registry=_address(registry, defaults.registry, "--registry"),
        admin=_address(admin, defaults.admin, "--admin"),
    )
    properties = {
        "database.hostname": str(home / "postgres"),
        "database.user": "postgres",
        "database.dbname": DATABASE,
        "slot.name": "tidegate_demo",
    }
    capture = CaptureConfig(name=DATABASE, properties=properties)
    return Config(log=LogConfig(data=home / "log"), gateway=gateway, captures=(capture,))


def _address(text: str | None, default: Address, option: str) -> Address:
    """What was asked for, else the default, else (where that port is taken) any free port."""
    if text is not None:
        try:
            return Address.parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=option) from error
    try:
        with socket.create_server((default.host, default.port)):
            return default
    except OSError:
        return Address(default.host, 0)
