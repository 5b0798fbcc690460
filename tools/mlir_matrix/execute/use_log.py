"""Record which results of an action cache are used, and which of them by processes that run.

A process locks a file ``uses/process-N`` until it ends. Before it looks up a result, it writes the key there. An eviction first
removes results and then reads these files, so it sees every running process that may have found one. The next process that takes
the file moves its keys to the file ``uses/DAY``. The files of results are not touched, because their times are part of the
fingerprints of unchanged runs.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.files import is_held, write_text

_DAY_S = 86_400
_PROCESS = "process-"
#: Digits of a key that are recorded. Of two results with the same digits, both count as used.
_DIGITS = 16


def short(key: str) -> str:
    """Return the digits of a key by which its use is recorded."""
    return key[:_DIGITS]


class UseLog:
    """The keys that this process uses. Best effort: on a read-only cache or without locks nothing is recorded."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file: int | None = None
        self._tried = False
        self._noted: set[str] = set()

    def open(self) -> None:
        """Lock a file that no other process uses, once the folder of the cache exists."""
        self._tried = True
        if self._file is None:
            with suppress(OSError):
                if not os.path.isdir(self._folder):
                    os.mkdir(self._folder)
                self._file = self._take()

    def _take(self) -> int:
        number = 0
        while True:
            path = f"{self._folder}/{_PROCESS}{number}"
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _, keys = _of_process(path)
                add_uses(self._folder, keys, day=_day(os.fstat(file).st_mtime))
                os.ftruncate(file, 0)
                # The file system's clock may be behind this process's clock.
                os.utime(file)
                os.write(file, b"%d\n" % os.fstat(file).st_mtime_ns)
            except BlockingIOError:
                os.close(file)
                number += 1
            except OSError:
                os.close(file)
                raise
            else:
                return file

    def note(self, key: str) -> None:
        """Record the use of a result; call it before the look-up."""
        name = short(key)
        if not self._tried:
            self.open()
        if self._file is not None and name not in self._noted:
            self._noted.add(name)
            with suppress(OSError):
                os.write(self._file, f"{name}\n".encode())

    def close(self) -> None:
        """Release the file, for tests: a process that ends does so, too."""
        if self._file is not None:
            os.close(self._file)
            self._file, self._tried = None, False
            self._noted.clear()


@cache
def use_log(folder: str) -> UseLog:
    """Return this process's log of a folder; it stays open, because results are read also after the run."""
    return UseLog(folder)


@dataclass(frozen=True, kw_only=True)
class Uses:
    """The recorded uses; keys are shortened by :func:`short`."""

    #: The last use of a result, in seconds since 1970. On earlier days, the end of the day.
    last: dict[str, float]
    #: The results that running processes may have found.
    in_use: set[str]
    #: When the oldest running process began, in nanoseconds; infinite if none runs.
    began: float


def read_uses(folder: str) -> Uses:
    """Return the uses recorded in a folder, which need not exist."""
    last: dict[str, float] = {}
    in_use: set[str] = set()
    began = float("inf")
    # Processes first: keys move from their files to those of days.
    for path in Path(folder).glob(f"{_PROCESS}*"):
        running = is_held(path)
        started, keys = _of_process(str(path))
        if running:
            in_use |= keys
            began = min(began, started)
        last.update(dict.fromkeys(keys, time.time() if running else path.stat().st_mtime))
    for day in _days(folder):
        for key in _read(f"{folder}/{day}"):
            last[key] = max(last.get(key, 0), (day + 1) * _DAY_S)
    return Uses(last=last, in_use=in_use, began=began)


def add_uses(folder: str, keys: Iterable[str], *, day: int | None = None) -> None:
    """Record that results are used on a day, by default today. Raise OSError."""
    path = f"{folder}/{_day(time.time()) if day is None else day}"
    new = {short(key) for key in keys} - _read(path)
    if new:
        if not os.path.exists(path):
            with suppress(InfrastructureError):
                prune_uses(folder)
        with open(path, "ab", buffering=0) as file:
            # The line before may be incomplete.
            file.write(("\n" + "\n".join(sorted(new)) + "\n").encode())


def prune_uses(folder: str, keys: Set[str] | None = None) -> None:
    """Keep of earlier days only the last use of each key, by default of all. Raise InfrastructureError."""
    today = _day(time.time())
    seen = _read(f"{folder}/{today}")
    for day in sorted(_days(folder), reverse=True):
        if day < today:
            path = Path(folder, str(day))
            found = _read(str(path))
            left = (found if keys is None else found & keys) - seen
            seen |= left
            if not left:
                path.unlink(missing_ok=True)
            elif left != found:
                write_text(path, "\n".join(sorted(left)) + "\n")


def _of_process(path: str) -> tuple[int, set[str]]:
    """Return when a process began, 0 if that is not written yet, and its keys."""
    words = _read(path)
    keys = {word for word in words if len(word) == _DIGITS}
    return min((int(word) for word in words - keys if word.isdecimal()), default=0), keys


def _read(path: str) -> set[str]:
    try:
        return set(Path(path).read_text(encoding="ascii", errors="replace").split())
    except FileNotFoundError:
        return set()


def _days(folder: str) -> Iterator[int]:
    with suppress(FileNotFoundError):
        yield from [int(name) for name in os.listdir(folder) if name.isdecimal()]


def _day(seconds: float) -> int:
    return int(seconds // _DAY_S)


def is_of_today(path: str) -> bool:
    """Return whether a file was modified today. Raise OSError."""
    return _day(os.stat(path).st_mtime) == _day(time.time())
