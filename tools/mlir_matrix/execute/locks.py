"""Locks by key: runs that share an action cache do not execute one action at the same time.

A key stands for one byte of a file, locked by an open file description lock (``F_OFD_SETLK`` in fcntl(2)). The kernel ends
these locks with the run, however it ends. On a file system without locks runs go without them; the cache stays correct.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlir_matrix.execute.job import Job

#: ``struct flock``: type, whence, start, length, process (0 for these locks).
_FLOCK = struct.Struct("hhqqi0q")
#: Seconds until a key is looked at again: twice as long each time, within these.
_SHORTEST_S, _LONGEST_S = 0.02, 0.25


class KeyLocks:
    """The keys that this run holds in a shared action cache."""

    def __init__(self, folder: Path) -> None:
        self._held: set[str] = set()
        self._file: int | None = None
        try:
            # No child inherits it: a lock ends when the last descriptor is closed.
            self._file = os.open(folder / "locks", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            return

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
        """Release all keys, and go on without locks."""
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


@dataclass(slots=True)
class _Wait:
    job: Job
    #: When to execute it all the same; when to look again, and how much later the next time.
    until: float
    due: float = 0.0
    pause: float = _SHORTEST_S
    parked: bool = True


class WaitingJobs:
    """Jobs that another run executes. They take no worker, and are looked up again after a while."""

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}

    def __len__(self) -> int:
        return sum(wait.parked for wait in self._waits.values())

    def add(self, job: Job, limit_s: float) -> None:
        """Put a job aside until it is due, for at most ``limit_s`` seconds since the first call."""
        now = time.monotonic()
        wait = self._waits.setdefault(job.prepared.key, _Wait(job, now + limit_s))
        wait.job, wait.parked = job, True
        wait.due, wait.pause = now + wait.pause, min(2 * wait.pause, _LONGEST_S)

    def over(self, job: Job) -> bool:
        """Return whether a job has waited for its limit."""
        wait = self._waits.get(job.prepared.key)
        return wait is not None and time.monotonic() >= wait.until

    def due(self, jobs: Container[str]) -> Iterator[Job]:
        """Yield the jobs to look up now, and take them out; ``jobs`` has the keys of all unfinished jobs."""
        now = time.monotonic()
        self._waits = {key: wait for key, wait in self._waits.items() if key in jobs}
        for wait in [*self._waits.values()]:
            if wait.parked and wait.due <= now:
                wait.parked = False
                yield wait.job

    def pause(self, longest: float) -> float:
        """Return the seconds until the next job is due, at most ``longest``."""
        now = time.monotonic()
        return min([longest, *(max(0.0, wait.due - now) for wait in self._waits.values() if wait.parked)])
