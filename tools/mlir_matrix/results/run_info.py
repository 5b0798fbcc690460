"""Describe a run: the program, its catalogs and their commits, the host, the times."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mlir_matrix import __version__
from mlir_matrix.base.text import now

if TYPE_CHECKING:
    from mlir_matrix.results.documents import FinishedRun, StartedRun, UsedCatalog

#: A catalog may contain a bare repository whose configuration names programs. With these options, git runs none of them.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit", "--no-optional-locks")
_STATUS = ("status", "--porcelain=v2", "--branch", "--untracked-files=normal", "--", ".")

#: As Git names the commit of a repository without any, and the branch where a commit is checked out.
_NO_COMMIT, _DETACHED = "(initial)", "(detached)"
#: Where CI services, which check out a commit, name the branch: GitHub for pull requests and pushes, GitLab, Buildkite.
_BRANCHES = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "BUILDKITE_BRANCH")


class RunInfo:
    """The description of a run. Git searches for changes in the catalogs while the tests are planned."""

    def __init__(self, command: str, roots: Iterable[str], selecting: Sequence[str] = ()) -> None:
        self._command, self._selecting = command, list(selecting)
        self._started = now()
        self._asked = {root: _ask(root) for root in roots}
        self._catalogs: list[UsedCatalog] | None = None

    def started(self) -> StartedRun:
        if self._catalogs is None:
            self._catalogs = [_catalog(folder, *asked) for folder, asked in self._asked.items()]
        return {
            "version": __version__,
            "command": self._command,
            "selecting": self._selecting,
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
    headers = dict(line.removeprefix("# ").split(" ", 1) for line in lines if line.startswith("# branch."))
    commit, branch = headers.get("branch.oid", _NO_COMMIT), headers.get("branch.head", _DETACHED)
    if commit == _NO_COMMIT:
        return {"folder": folder}
    found: UsedCatalog = {"folder": folder, "commit": commit, "dirty": any(not line.startswith("#") for line in lines)}
    if branch == _DETACHED:
        branch = next(filter(None, map(os.environ.get, _BRANCHES)), "")
    if branch:
        found["branch"] = branch
    return found
