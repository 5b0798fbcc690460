"""Keep bytes in a file of a cache, so that damage is noticed and old files go."""

from __future__ import annotations

import contextlib
import os

from mlir_matrix.base.digest import check_line
from mlir_matrix.base.plain_files import open_plain


class KeptFile:
    """A file of a folder that holds at most so many of them; the oldest ones are removed."""

    def __init__(self, folder: str, name: str, most: int) -> None:
        self.path = f"{folder}/{name}"
        self._folder, self._name, self._most = folder, name, most

    def read(self) -> bytes:
        """Return what was written. Raise OSError if there is nothing, ValueError if it is damaged or another user's."""
        with open_plain(self.path) as file:
            owner = os.fstat(file.fileno()).st_uid
            data, _, check = file.read().rpartition(b"\n")
        if check != check_line(self._name, data) or owner != os.geteuid():
            raise ValueError(f"{self.path} is damaged, or another user's")
        return data

    def write(self, data: bytes) -> None:
        """Write the file atomically, but not to last: what a crash of the machine loses is made again. Raise OSError."""
        os.makedirs(self._folder, exist_ok=True)
        scratch = f"{self.path}.{os.getpid()}.new"
        try:
            with open(scratch, "wb") as file:
                file.write(data + b"\n" + check_line(self._name, data))
            os.replace(scratch, self.path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(scratch)
        by_age = sorted(os.scandir(self._folder), key=lambda entry: entry.stat().st_mtime_ns)
        for entry in by_age[: -self._most]:
            os.unlink(entry.path)
