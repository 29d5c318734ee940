"""A log in a fresh directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from capture.log import Log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """An empty log."""
    opened = Log.open(tmp_path / "data", create=True)
    yield opened
    opened.close()
