"""Fixtures that every test may ask for; all else in tests/support is imported by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import shop
from tests.support.live import JSON_SETTINGS, LiveShop
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL 18 with wal_level=logical, one for the whole test run."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a fresh, empty database; it goes with its slots when the test ends."""
    dsn = postgres.create_database()
    yield dsn
    postgres.drop_database(dsn)


@pytest.fixture(scope="module")
def avro_shop(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveShop]:
    """A shop under `tidegate serve` in Avro, with rows from before the capture and changes since."""
    yield from _live(postgres, tmp_path_factory.mktemp("avro"), {})


@pytest.fixture(scope="module")
def json_shop(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveShop]:
    """The same in JSON without schemas, decimals as strings."""
    yield from _live(postgres, tmp_path_factory.mktemp("json"), JSON_SETTINGS)


def _live(postgres: PostgresServer, folder: Path, settings: dict[str, str]) -> Iterator[LiveShop]:
    dsn = postgres.create_database()
    shop.create(dsn)
    with LiveShop(dsn, folder / "data", settings=settings) as live:
        yield live
    postgres.drop_database(dsn)
