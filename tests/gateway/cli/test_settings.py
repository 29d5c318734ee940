"""What the options of the command line add up to, and how a capture gets its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from gateway.cli import COMMANDS
from gateway.cli.settings import Arguments, configuration
from gateway.config import ConfigError

Run = Callable[..., Result]
URL = "postgresql://app:hush@db:6432/shop"


def test_a_capture_is_named_after_its_database() -> None:
    (capture,) = configuration(Arguments(postgres=URL, tables="public.*")).captures
    assert capture.name == "shop"
    assert capture.properties["database.hostname"] == "db"
    assert capture.properties["table.include.list"] == "public.*"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (Arguments(postgres=URL, name="mine"), "mine"),
        (Arguments(postgres=URL, assignments=("topic.prefix=web",)), "web"),
        (Arguments(postgres=URL, assignments=("name=inventory", "topic.prefix=web")), "inventory"),
    ],
)
def test_or_by_what_says_more(arguments: Arguments, name: str) -> None:
    (capture,) = configuration(arguments).captures
    assert capture.name == name


def test_the_more_particular_option_wins(tmp_path: Path) -> None:
    file = tmp_path / "connector.json"
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.dbname": "old",
        "database.port": 1,
        "table.include.list": "a.b",
        "slot.name": "from_file",
    }
    file.write_text(json.dumps({"name": "inventory", "config": config}))
    given = Arguments(connector_file=file, postgres=URL, tables="c.d", assignments=("database.user=root",))
    (capture,) = configuration(given).captures
    assert capture.name == "inventory"
    expected = {
        "database.dbname": "shop",
        "database.port": "6432",
        "database.user": "root",
        "table.include.list": "c.d",
        "slot.name": "from_file",
    }
    assert {name: capture.properties[name] for name in expected} == expected
    assert capture.sources["slot.name"] == f"--debezium-config {file}"
    assert capture.sources["database.user"] == "--set database.user"


def test_set_goes_to_the_only_configured_capture(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text('[capture.shop]\n"database.dbname" = "shop"\n')
    given = Arguments(config_file=file, assignments=("slot.name=two",))
    (capture,) = configuration(given).captures
    assert capture.properties == {"database.dbname": "shop", "slot.name": "two"}
    file.write_text('[capture.a]\n"database.dbname" = "a"\n[capture.b]\n"database.dbname" = "b"\n')
    with pytest.raises(ConfigError, match="--name"):
        configuration(given)
    chosen = configuration(Arguments(config_file=file, assignments=("slot.name=two",), name="b"))
    assert chosen.capture("b").properties["slot.name"] == "two"
    assert "slot.name" not in chosen.capture("a").properties


def test_config_masks_secrets_and_names_sources(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_GATEWAY__ADMIN", "127.0.0.1:1")
    result = run("config", "--json", "--postgres", URL, "--kafka", "127.0.0.1:0")
    assert "hush" not in result.stdout
    shown = json.loads(result.stdout)
    assert shown["capture.shop.database.password"] == {"value": "********", "source": "--postgres"}
    assert shown["gateway.kafka"] == {"value": "127.0.0.1:0", "source": "--kafka"}
    assert shown["gateway.admin"]["source"] == "environment variable TIDEGATE_GATEWAY__ADMIN"
    assert shown["capture.shop.topic.prefix"] == {"value": "shop", "source": "default"}
    assert shown["capture.shop.snapshot.mode"] == {"value": "initial", "source": "default"}
    assert "hush" not in run("config", "--postgres", URL).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "slot.nmae=x"), "slot.nmae"),
        (("--set", "heartbeat.interval.ms=5"), "heartbeat.interval.ms"),
        (("--set", "slot.name"), "NAME=VALUE"),
        (("--kafka", "9092"), "gateway.kafka"),
        (("--config", "/nonexistent.toml"), "/nonexistent.toml"),
        (("--name", "a b"), "'a b'"),
    ],
)
def test_what_is_wrong_exits_with_2_and_names_it(run: Run, arguments: tuple[str, ...], words: str) -> None:
    for command in ("serve", "doctor", "config"):
        result = run(command, "--postgres", URL, *arguments)
        assert result.exit_code == 2, result.output
        assert words in result.stderr
        assert "hush" not in result.stderr


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ('"database.hostname" = "db"\n"topic.prefix" = "two"', "slot 'debezium'"),
        ('"database.hostname" = "other"\n"topic.prefix" = "one"', "topic.prefix 'one'"),
    ],
)
def test_two_captures_must_not_meet(run: Run, tmp_path: Path, second: str, words: str) -> None:
    file = tmp_path / "tidegate.toml"
    first = '[capture.one]\n"database.hostname" = "db"\n"database.dbname" = "a"\n'
    file.write_text(f'{first}[capture.two]\n"database.dbname" = "b"\n{second}\n')
    for command in ("serve", "doctor"):
        result = run(command, "--config", file)
        assert result.exit_code == 2
        assert "captures one and two" in result.stderr
        assert words in result.stderr


def test_nothing_to_capture_says_how_to_name_something(run: Run) -> None:
    result = run("serve")
    assert result.exit_code == 2
    assert "--postgres URL" in result.stderr
    result = run("capture", "absent")
    assert result.exit_code == 2
    assert "absent" in result.stderr


def test_every_command_explains_itself(run: Run) -> None:
    overview = run("--help").stdout
    for command in COMMANDS:
        assert f"  {command} " in overview
        result = run(command, "--help")
        assert result.exit_code == 0
        assert result.stdout.startswith("Usage: ")
        for line in result.stdout.partition("Options:")[2].splitlines():
            if line.startswith("  -"):
                assert len(line.split("  ")) > 2 or line.strip().startswith("--"), line
