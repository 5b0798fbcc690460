"""Describe a run: the program, its catalogs and their commits, the host, the times."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mlir_matrix import __version__
from mlir_matrix.base.text import now

if TYPE_CHECKING:
    from mlir_matrix.results.documents import FinishedRun, StartedRun, UsedCatalog

#: A catalog may contain a bare repository whose configuration names programs. With these options, git runs none of them.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit", "--no-optional-locks")
_STATUS = ("status", "--porcelain=v2", "--branch", "--untracked-files=normal", "--", ".")


class RunInfo:
    """The description of a run. Git searches for changes in the catalogs while the tests are planned."""

    def __init__(self, command: str, roots: Iterable[str]) -> None:
        self._command = command
        self._started = now()
        self._asked = {root: _ask(root) for root in roots}
        self._catalogs: list[UsedCatalog] | None = None

    def started(self) -> StartedRun:
        if self._catalogs is None:
            self._catalogs = [_catalog(folder, *asked) for folder, asked in self._asked.items()]
        return {
            "version": __version__,
            "command": self._command,
            "host": os.uname().nodename,
            "catalogs": self._catalogs,
            "started": self._started,
        }

    def finished(self) -> FinishedRun:
        return {**self.started(), "ended": now()}


def _ask(folder: str) -> tuple[int, int]:
    """Start Git on a folder. Return its process number (0 if there is no Git) and the descriptor of its output."""
    read, write = os.pipe()
    quiet = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
    try:
        words = [*_GIT, "-C", folder, *_STATUS]
        # Importing the module subprocess takes longer than Git.
        process = os.posix_spawnp(_GIT[0], words, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, write, 1), quiet])
    except OSError:
        process = 0
    os.close(write)
    return process, read


def _catalog(folder: str, process: int, read: int) -> UsedCatalog:
    with open(read, encoding="utf-8", errors="replace") as answer:
        lines = answer.read().splitlines()
    if process:
        os.waitpid(process, 0)
    commit = next((words[2] for line in lines if (words := line.split())[:2] == ["#", "branch.oid"]), "(initial)")
    if commit == "(initial)":
        return {"folder": folder}
    return {"folder": folder, "commit": commit, "dirty": any(not line.startswith("#") for line in lines)}
