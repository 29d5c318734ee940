"""Fixtures that every test may ask for; all else in tests/support is imported by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
