"""What a capture wants to find again, by key: its own JSON texts, in the catalog's file.

Beside the position, which moves with every commit, this holds what changes seldom and is large, like what is
known of each table. A write is durable when it returns, in a transaction of its own.
"""

from collections.abc import Mapping

from capture.log.database import Database

_SCHEMA = """
CREATE TABLE IF NOT EXISTS capture_memory (
    capture TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (capture, key)
) WITHOUT ROWID
"""


class CaptureMemory:
    """The memory of one capture; usable from any thread."""

    def __init__(self, database: Database, capture: str) -> None:
        self._database = database
        self._capture = capture
        with database.write() as connection:
            connection.execute(_SCHEMA)

    def read(self) -> dict[str, str]:
        """Everything that was put, by key."""
        rows = self._database.connection().execute(
            "SELECT key, value FROM capture_memory WHERE capture = ?", (self._capture,)
        )
        return dict(rows.fetchall())

    def put(self, entries: Mapping[str, str]) -> None:
        """Keep these texts under their keys, durably."""
        with self._database.write() as connection:
            connection.executemany(
                "INSERT INTO capture_memory VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET value = excluded.value",
                [(self._capture, key, value) for key, value in entries.items()],
            )
