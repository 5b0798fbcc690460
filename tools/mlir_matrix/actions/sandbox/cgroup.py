"""Observe a container whose first process is a worker: end its processes, and name the limit that an action exceeded."""

from __future__ import annotations

import os
import signal

#: Files in which control groups count what they refused, version 2 before version 1, and the word before the number.
_KILLS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"), "oom_kill"
_REFUSALS = ("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events"), "max"
_MOST = ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")


class ContainerCounters:
    """The counters of a container that runs one action at a time."""

    def __init__(self) -> None:
        self._kills = _count(*_KILLS)
        self._refusals = _count(*_REFUSALS)

    @staticmethod
    def end_all() -> None:
        """End all other processes, whatever group, session or parent they have."""
        try:
            os.kill(-1, signal.SIGKILL)
            while True:
                # The first process inherits all orphans.
                os.waitpid(-1, 0)
        except (ProcessLookupError, ChildProcessError):
            return

    def refused(self, memory_mb: int) -> str:
        """Return the limit that the last action exceeded, as a clause; empty if it exceeded none."""
        before = self._kills, self._refusals
        self._kills, self._refusals = _count(*_KILLS), _count(*_REFUSALS)
        if self._kills != before[0]:
            return f"out of memory: the processes that it started exceeded the limit of {memory_mb} MiB"
        if self._refusals != before[1]:
            return f"it started more processes than the limit of {_read(_MOST).strip() or 'its container'}"
        return ""


def _count(places: tuple[str, ...], word: str) -> int:
    """Return the number after a word in the first of these files that exists, else 0."""
    found = dict(line.split(" ", 1) for line in _read(places).splitlines() if " " in line)
    number = found.get(word, "")
    return int(number) if number.isdecimal() else 0


def _read(places: tuple[str, ...]) -> str:
    for place in places:
        try:
            with open(place, encoding="ascii") as file:
                return file.read()
        except OSError:
            continue
    return ""
