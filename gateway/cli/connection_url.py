"""A connection URL as Debezium's `database.*` properties."""

from __future__ import annotations

from capture.options import OptionError, from_url
from gateway.config import ConfigError


def connection_properties(url: str, source: str) -> dict[str, str]:
    """The properties that a libpq connection URL or string stands for.

    Raises ConfigError naming the source, never showing the password, when libpq cannot read it, when it names
    no database, or when it holds a parameter that no property stands for.
    """
    try:
        properties = from_url(url)
    except OptionError as error:
        raise ConfigError(f"{source}: {error}") from None
    if not properties.get("database.dbname"):
        raise ConfigError(f"{source}: name the database, as in postgresql://user@host:5432/DATABASE")
    return properties
