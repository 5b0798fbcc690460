"""Keep records of runs until a database has them: one file per run, in a folder of the user's state.

A file is renamed into place, so a killed run leaves a complete file or none. Unchanged runs import this module, so it imports
little.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import Any

from mlir_matrix.base.plain_files import NotPlainError, open_plain

SCHEMA = "mlir-matrix/history-run/v1"
#: Bytes of a file, once decompressed; a million results have a quarter of them.
_MOST_BYTES = 1 << 30


class SpoolError(Exception):
    """Raised for a file that holds no run, with the reason."""


class NewerRunError(Exception):
    """Raised for the file of another version of the program."""


class Spool:
    """The files of runs that no database has yet, below the folder of the user's state."""

    def __init__(self, state: Path) -> None:
        self.folder = f"{state}/history/spool"
        #: The file with the identifier of this history. A removed or moved state folder gets another identifier.
        self._identity = f"{state}/history/id"

    @property
    def is_off(self) -> bool:
        return os.environ.get("MATRIX_HISTORY", "") == "off"

    def add(self, recording: Mapping[str, Any]) -> str:
        """Add a run. Return an identifier of the run and of this history. Raise OSError."""
        self._write(recording["id"], zlib.compress(json.dumps(recording, separators=(",", ":")).encode(), 1))
        with suppress(FileExistsError), open(self._identity, "x") as file:
            file.write(new_id())
        return f"{recording['id']}@{self._history()}"

    def knows(self, recorded: str) -> bool:
        """Return whether this history has a run that another run can repeat; True if nothing is recorded."""
        return self.is_off or recorded.partition("@")[2] == self._history() != ""

    def forget(self) -> None:
        """Make the next run of each command line record all its results, because a database is new. Raise OSError."""
        with suppress(FileNotFoundError):
            os.unlink(self._identity)

    def _history(self) -> str:
        with suppress(OSError), open_plain(self._identity) as file:
            return file.read(64).decode(errors="replace")
        return ""

    def repeat(self, recorded: str, *, started: str, ended: str) -> str:
        """Add a run that repeats the results of a known run. Return why that failed, or an empty string."""
        if self.is_off:
            return ""
        about = {"host": os.uname().nodename, "started": started, "ended": ended}
        new = new_id()
        entry = {"schema": SCHEMA, "id": new, "same_as": recorded.partition("@")[0], "run": about}
        try:
            self._write(new, json.dumps(entry).encode())
        except OSError as error:
            return self.trouble(error)
        return ""

    def trouble(self, error: OSError) -> str:
        return f"history does not have this run: {error.filename or self.folder}: {error.strerror or error}"

    def _write(self, run: str, data: bytes) -> None:
        # Names sort by time.
        path = f"{self.folder}/{time_ns():020}-{run}"
        scratch = f"{self.folder}/.{run}"
        try:
            try:
                file = open(scratch, "xb")  # noqa: SIM115 - closed below
            except FileNotFoundError:
                os.makedirs(self.folder, exist_ok=True)
                file = open(scratch, "xb")  # noqa: SIM115 - closed below
            with file:
                file.write(data)
            os.rename(scratch, path)
        except OSError:
            with suppress(OSError):
                os.unlink(scratch)
            raise

    def files(self) -> list[Path]:
        """Return the files of runs, the oldest first. Raise OSError."""
        with suppress(FileNotFoundError):
            return sorted(Path(self.folder, name) for name in os.listdir(self.folder) if not name.startswith("."))
        return []

    def reject(self, file: Path) -> Path:
        """Set a file aside; return where it is. Raise OSError."""
        aside = Path(self.folder).parent / "rejected" / file.name
        aside.parent.mkdir(exist_ok=True)
        return file.rename(aside)


def new_id() -> str:
    """Return the identifier of a new run: 128 random bits."""
    return os.urandom(16).hex()


def read_recording(file: Path) -> dict[str, object]:
    """Read the file of a run. Raise SpoolError, NewerRunError, OSError."""
    try:
        with open_plain(file) as opened:
            if os.fstat(opened.fileno()).st_size > _MOST_BYTES:
                raise SpoolError("larger than 1 GB")
            data = opened.read()
    except NotPlainError as error:
        raise SpoolError(error.strerror) from None
    if not data.startswith(b"{"):
        stream = zlib.decompressobj()
        try:
            data = stream.decompress(data, _MOST_BYTES)
        except zlib.error as error:
            raise SpoolError(f"damaged: {error}") from None
        if not stream.eof:
            raise SpoolError("larger than 1 GB" if stream.unconsumed_tail else "cut short")
    try:
        recording = json.loads(data)
    except (ValueError, RecursionError):
        raise SpoolError("damaged: not JSON") from None
    schema = recording.get("schema") if isinstance(recording, dict) else None
    if schema != SCHEMA:
        what = f"schema {str(schema)[:80]!r}; this version reads {SCHEMA}"
        version = str(schema).removeprefix(SCHEMA[:-1])
        raise (NewerRunError if version.isdecimal() and int(version[:9]) > int(SCHEMA[-1]) else SpoolError)(what)
    return recording  # type: ignore[no-any-return] # JSON
