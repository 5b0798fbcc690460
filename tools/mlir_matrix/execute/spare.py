"""Small files that are no longer needed, written anew instead of removed and made.

To make a file costs more than to fill it, and where many were just removed, some file systems (ext4 without a journal)
search for a tenth of a millisecond and more for a place for the next one. A run makes and drops several files an action.
"""

from __future__ import annotations

import contextlib
import os

from mlir_matrix.execute.large_files import write_all
from mlir_matrix.execute.store import write_bytes

#: Bytes of a file that is worth keeping, and how many are kept: what a run writes between two actions' ends is far less.
_SMALL = 1 << 16
_MOST = 1000


class SpareFiles:
    """A folder of spare files. Their content means nothing."""

    def __init__(self, folder: str) -> None:
        os.mkdir(folder, 0o700)
        self._folder = folder
        self._free: list[str] = []
        self._serial = 0
        self._mode = 0
        self._owner = os.geteuid()

    def discard(self, path: str) -> None:
        """Remove a file, which may be anything but a folder; keep it where it is an ordinary one with no other name."""
        found = os.lstat(path)
        # What is somebody else's stays theirs to write, wherever it goes.
        plain = found.st_mode == self._mode and found.st_uid == self._owner and found.st_nlink == 1
        if plain and found.st_size <= _SMALL and len(self._free) < _MOST:
            spare = self._name()
            os.rename(path, spare)
            self._free.append(spare)
        else:
            os.unlink(path)

    def write(self, path: str, data: bytes) -> None:
        """Make a file, in place of one that may be there. It appears complete or not at all."""
        spare = self._free.pop() if self._free else ""
        try:
            if spare:
                _overwrite(spare, data)
            else:
                spare = self._name()
                # All in one folder: to make files in one of many costs file systems several times as much.
                write_bytes(spare, data)
                self._mode = self._mode or os.lstat(spare).st_mode
            os.rename(spare, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(spare)
            raise

    def _name(self) -> str:
        self._serial += 1
        return f"{self._folder}/{self._serial}"


def _overwrite(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        # Cut off at the end, where that changes nothing on the disk; not before, when it would all be freed and taken again.
        write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)
