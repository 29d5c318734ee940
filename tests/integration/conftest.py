"""Services that several integration tests share: starting one per test would cost more than the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import shop
from tests.support.live import JSON_SETTINGS, LiveShop
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="session")
def avro_shop(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveShop]:
    """A shop under `tidegate serve` in Avro, with rows from before the capture and changes since."""
    yield from _live(postgres, tmp_path_factory.mktemp("avro"), {})


@pytest.fixture(scope="session")
def json_shop(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveShop]:
    """The same in JSON without schemas, decimals as strings."""
    yield from _live(postgres, tmp_path_factory.mktemp("json"), JSON_SETTINGS)


def _live(postgres: PostgresServer, folder: Path, settings: dict[str, str]) -> Iterator[LiveShop]:
    dsn = postgres.create_database()
    shop.create(dsn)
    with LiveShop(dsn, folder / "data", settings=settings) as live:
        yield live
    postgres.drop_database(dsn)
