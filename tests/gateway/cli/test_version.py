"""`tidegate version` says which encoder runs."""

from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import Result

from capture.envelope import COMPILED


def test_version(run: Callable[..., Result]) -> None:
    encoder = "compiled" if COMPILED else "generated"
    shown = json.loads(run("version", "--json").stdout)
    assert shown["encoder"] == encoder
    assert shown["version"].startswith("0.1.0")
    assert f"{encoder} encoder" in run("version").stdout
