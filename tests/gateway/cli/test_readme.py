"""The README says what the code does: properties, commands, make targets, examples."""

from __future__ import annotations

import re
from pathlib import Path

from capture.options.vocabulary import HONOURED
from gateway.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_honoured_property_is_named() -> None:
    prose = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    named = set(re.findall(r"`([^`]+)`", prose))
    named |= {f"{side}.{name}" for side in ("key", "value") for name in named if name.startswith("converter")}
    assert sorted(HONOURED.keys() - named) == []


def test_every_command_is_named() -> None:
    assert [command for command in COMMANDS if command not in README] == []


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    mentioned = set(re.findall(r"make ([a-z]+)\b", README)) - {"them"}
    assert [target for target in sorted(mentioned) if f"\n{target}:" not in makefile] == []


def test_linked_files_exist() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert [link for link in links if not link.startswith("https://") and not (ROOT / link).exists()] == []


def test_the_toml_in_it_is_read(tmp_path: Path) -> None:
    from capture.options import CaptureOptions
    from gateway.cli.connection_url import connection_properties
    from gateway.config import load

    block = re.search(r"```toml\n(.*?)```", README, re.DOTALL)
    assert block is not None
    file = tmp_path / "tidegate.toml"
    file.write_text(block[1])
    captures = load(file=file, expand_url=connection_properties).captures
    assert [capture.name for capture in captures] == ["shop", "billing"]
    for capture in captures:
        CaptureOptions.parse(capture.properties, name=capture.name)
