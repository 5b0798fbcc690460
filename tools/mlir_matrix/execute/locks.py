"""Lock keys, so that runs that share an action cache do not execute one action at the same time.

A key locks one byte of a file, by an open file description lock (``F_OFD_SETLK`` in fcntl(2)). The kernel releases it when
the run ends for any reason. A file system without locks costs only time: the cache stays correct.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

#: ``struct flock``: type, whence, start, length, process (0 for these locks).
_FLOCK = struct.Struct("hhqqi0q")


class KeyLocks:
    """The keys that this run holds in a shared action cache."""

    def __init__(self, folder: Path) -> None:
        self._held: set[str] = set()
        self._file: int | None = None
        with suppress(OSError):
            # No child inherits it: a lock ends when the last descriptor is closed.
            self._file = os.open(folder / "locks", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def take(self, key: str) -> bool:
        """Lock a key. Return False while another run holds it; True also on a file system without locks."""
        taken = self._call(fcntl.F_OFD_SETLK, fcntl.F_WRLCK, key)
        if taken:
            self._held.add(key)
        return taken

    def is_free(self, key: str) -> bool:
        """Return whether no other run holds a key."""
        return self._call(fcntl.F_OFD_GETLK, fcntl.F_WRLCK, key)

    def keep(self, keys: Container[str]) -> None:
        """Release all keys but these."""
        for key in [key for key in self._held if key not in keys]:
            self._held.discard(key)
            self._call(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, key)

    def close(self) -> None:
        """Release all keys. Locks have no effect from now on."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _call(self, command: int, kind: int, key: str) -> bool:
        """Return whether no other run holds the key."""
        if self._file is None:
            return True
        # 62 of a key's 256 bits. If two keys share them, one waits for the other without harm.
        asked = _FLOCK.pack(kind, os.SEEK_SET, int(key[:16], 16) >> 2, 1, 0)
        try:
            answer = fcntl.fcntl(self._file, command, asked)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            # For example a network file system without its lock service.
            self.close()
            return True
        return command == fcntl.F_OFD_SETLK or _FLOCK.unpack(answer)[0] == fcntl.F_UNLCK
