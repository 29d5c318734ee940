"""One SQLite file in WAL mode: a connection per thread, and write transactions in turn.

SQLite's own wait for a lock is a poll with growing sleeps. With several captures that commit all the time the
sleeps would be most of a commit, so writers queue at a file lock first, which wakes the next one at once.
"""

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from capture.log.errors import LogError, LogFull

BUSY_TIMEOUT_S = 30.0


class Database:
    """A SQLite file shared by threads and processes. Statements run outside a transaction commit at once."""

    def __init__(
        self, path: Path, *, lock: Path, synchronous: Literal["FULL", "NORMAL"], create: bool = False
    ) -> None:
        self.path = path
        self._lock = lock
        self._synchronous = synchronous
        self._uri = f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._lock_files: list[int] = []
        self._guard = threading.Lock()
        if create:
            try:
                with self._turn():
                    self.connection().execute("PRAGMA journal_mode = WAL")
            except sqlite3.Error as error:
                self.close()
                raise database_error(error, path) from error

    def connection(self) -> sqlite3.Connection:
        """This thread's connection, opened at first use."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect()
            self._local.connection = connection
        return connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One write transaction: committed and durable at the end, rolled back if the block raises.

        What SQLite refuses is raised as LogFull or LogError.
        """
        connection = self.connection()
        with self._turn():
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                _roll_back(connection)
                raise database_error(error, self.path) from error
            except BaseException:
                _roll_back(connection)
                raise

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Several reads of one and the same state; may be nested."""
        connection = self.connection()
        if connection.in_transaction:
            yield connection
            return
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            connection.execute("COMMIT")

    def close(self) -> None:
        """Close the connections of all threads; none of them may be in use."""
        with self._guard:
            for connection in self._opened:
                connection.close()
            for file in self._lock_files:
                os.close(file)
            self._opened.clear()
            self._lock_files.clear()
            self._local = threading.local()

    def _connect(self) -> sqlite3.Connection:
        # check_same_thread is off for `close` alone, which may be called by another thread.
        connection = sqlite3.connect(
            self._uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("PRAGMA foreign_keys = ON")
        with self._guard:
            self._opened.append(connection)
        return connection

    @contextmanager
    def _turn(self) -> Iterator[None]:
        file: int | None = getattr(self._local, "lock_file", None)
        if file is None:
            file = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._local.lock_file = file
            with self._guard:
                self._lock_files.append(file)
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)


def database_error(error: sqlite3.Error, path: Path) -> LogError:
    """Say in a LogError what SQLite refused; LogFull where it is space that lacks."""
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return LogFull(
            f"cannot write {path}: no space left. Free space on that file system; what was committed stays "
            f"readable"
        )
    return LogError(
        f"cannot write {path}: {error}. Check the disk, its free space and the permissions of the data "
        f"directory"
    )


def _roll_back(connection: sqlite3.Connection) -> None:
    # SQLite may have rolled back by itself, or be unable to: the next BEGIN tells.
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
