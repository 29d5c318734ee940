"""The log of one data directory: opened once per process, shared by its writers and readers."""

from pathlib import Path

from capture.log.catalog import Catalog, check_format, initialize
from capture.log.database import Database
from capture.log.errors import NoLog, storage_error
from capture.log.layout import CATALOG, DOORBELLS, LOCKS, STATUS, TOPICS, lock_path
from capture.log.schemas import SchemaStore
from capture.log.status import StatusFolder


class Log:
    """A data directory with its catalog and schemas."""

    def __init__(self, data: Path, database: Database) -> None:
        self.data = data
        self.catalog = Catalog(database, StatusFolder(data / STATUS))
        self.schemas = SchemaStore(database)
        self._database = database

    @classmethod
    def open(cls, data: Path, *, create: bool = False) -> "Log":
        """Open the log in `data`, with `create` make it if there is none.

        Raises NoLog where there is none, NewerFormat where a later version wrote it, LogError where the
        directory cannot be used.
        """
        path = data / CATALOG
        try:
            if create:
                for folder in (TOPICS, DOORBELLS, LOCKS, STATUS):
                    (data / folder).mkdir(parents=True, exist_ok=True)
            elif not path.exists():
                raise NoLog(
                    f"there is no log in {data}: give the data directory of a capture, or start one first"
                )
        except OSError as error:
            raise storage_error(error, "cannot use", data) from error
        database = Database(
            path, lock=lock_path(data, "database", "catalog"), synchronous="FULL", create=create
        )
        try:
            if create:
                initialize(database)
            else:
                check_format(database)
        except BaseException:
            database.close()
            raise
        return cls(data, database)

    def close(self) -> None:
        """Close the catalog's connections; no thread may be using them."""
        self._database.close()
