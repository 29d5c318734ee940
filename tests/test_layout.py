"""Rules of the repository that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
OURS = {"protocol", "capture", "gateway", "spark", "tests"}
VAGUE = {"utils", "common", "helpers", "manager", "types", "misc", "util", "helper"}
# Pieces, so that this file does not name them itself.
REGISTRY_HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("maven", "org"),
        ("maven", "apache", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("crates", "io"),
        ("golang", "org"),
        ("debian", "org"),
        ("docker", "io"),
    )
)


def tracked(*patterns: str) -> list[Path]:
    """Files that git knows or would add; a checkout without git is read as it lies."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / line for line in done.stdout.splitlines() if (ROOT / line).is_file()]


def imports(path: Path) -> set[str]:
    """The top-level names that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_examples_import_nothing_of_ours() -> None:
    guilty = {str(path.relative_to(ROOT)): imports(path) & OURS for path in tracked("examples/*.py")}
    assert not {name: found for name, found in guilty.items() if found}


def test_no_file_names_a_registry_host() -> None:
    guilty = []
    for path in tracked():
        text = path.read_bytes()
        guilty += [(str(path.relative_to(ROOT)), host) for host in REGISTRY_HOSTS if host.encode() in text]
    assert guilty == []


def test_no_file_names_a_folder_of_someones_machine() -> None:
    pattern = re.compile(rb"/(?:home|Users|work|root)/[A-Za-z0-9_.-]+")
    guilty = []
    for path in tracked("*.py", "*.pyx", "*.toml", "*.md", "Makefile", "*.java", "*.sh", "Dockerfile", "*.c"):
        guilty += [
            (str(path.relative_to(ROOT)), found.decode()) for found in pattern.findall(path.read_bytes())
        ]
    assert guilty == []


def test_tests_hold_no_init_and_unique_names() -> None:
    files = tracked("tests/*.py")
    assert [path for path in files if path.name == "__init__.py"] == []
    names = Counter(path.name for path in files if path.name.startswith("test_"))
    assert [name for name, count in names.items() if count > 1] == []


def test_packages_have_an_init() -> None:
    folders = {path.parent for path in tracked("protocol/*.py", "capture/*.py", "gateway/*.py", "spark/*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_no_module_has_a_vague_name() -> None:
    """House style, "Words": a module is named for the thing that it holds."""
    files = tracked("protocol/*.py", "capture/*.py", "gateway/*.py", "spark/*.py", "tests/support/*.py")
    assert [str(path) for path in files if {path.stem, path.parent.name} & VAGUE] == []


def test_tests_do_not_import_the_demo() -> None:
    """The demo proves the product to a user; the tests would only prove that it agrees with itself."""
    guilty = [path for path in tracked("tests/support/*.py") if b"gateway.demo" in path.read_bytes()]
    assert guilty == []
