"""Doorbells: how a commit wakes the processes that serve it, at once and without a connection.

Every listener binds a Unix datagram socket in DATA/doorbells; a writer sends an empty datagram to each. A
bell carries no facts (those are in the catalog), so a lost or doubled one does no harm.
"""

import errno
import os
import secrets
import socket
from pathlib import Path
from typing import Final

from capture.log.errors import LogError
from capture.log.layout import DOORBELLS

_SUFFIX: Final = ".sock"
# sun_path is 108 bytes on Linux and 104 elsewhere, with the closing zero.
_MAX_PATH_BYTES: Final = 103
_NOBODY: Final = frozenset({errno.ECONNREFUSED, errno.ENOTSOCK})


class Listener:
    """A doorbell: readable when something was committed since the last `drain`."""

    def __init__(self, data: Path) -> None:
        folder = data / DOORBELLS
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            with _Folder(folder) as addresses:
                self._socket.bind(addresses.of(self.path.name))
        except OSError as error:
            self._socket.close()
            raise LogError(
                f"cannot make the doorbell {self.path}: {error.strerror or error}. The data directory must "
                f"be on a file system that holds sockets"
            ) from error

    def fileno(self) -> int:
        """For `loop.add_reader` and `select`."""
        return self._socket.fileno()

    def drain(self) -> bool:
        """Take every bell that rang; whether there was one."""
        rang = False
        while True:
            try:
                self._socket.recv(1)
            except BlockingIOError:
                return rang
            rang = True

    def close(self) -> None:
        """Take the doorbell down."""
        self.path.unlink(missing_ok=True)
        self._socket.close()


class Ringer:
    """Rings every doorbell of a data directory; never waits and never fails."""

    def __init__(self, data: Path) -> None:
        self._folder = data / DOORBELLS
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def ring(self) -> int:
        """Ring; how many listeners heard it. The sockets of dead listeners are removed."""
        try:
            names = [name for name in os.listdir(self._folder) if name.endswith(_SUFFIX)]
            if not names:
                return 0
            with _Folder(self._folder) as addresses:
                return sum(self._ring(addresses.of(name), name) for name in names)
        except OSError:
            # The folder is gone: nobody can listen there.
            return 0

    def close(self) -> None:
        """Close the sending socket."""
        self._socket.close()

    def _ring(self, address: str, name: str) -> bool:
        try:
            self._socket.sendto(b"", address)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno in _NOBODY:
                (self._folder / name).unlink(missing_ok=True)
            return False
        return True


def ring(data: Path) -> int:
    """Ring every doorbell of `data` once."""
    ringer = Ringer(data)
    try:
        return ringer.ring()
    finally:
        ringer.close()


class _Folder:
    """Addresses of sockets in a folder, however long its path: through the folder's descriptor if need be."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.fspath(folder)
        self._file: int | None = None

    def __enter__(self) -> "_Folder":
        # 40 bytes: a process id, eight hexadecimal digits and the suffix.
        if len(os.fsencode(self._folder)) + 40 > _MAX_PATH_BYTES:
            self._file = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._folder = f"/proc/self/fd/{self._file}"
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)

    def of(self, name: str) -> str:
        return f"{self._folder}/{name}"
