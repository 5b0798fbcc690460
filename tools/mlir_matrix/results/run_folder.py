"""Create the folder of a run's failures, which no other run shares, and remove old ones."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.base.files import is_held

#: Limits for folders of runs: age in seconds, and bytes of all. Older folders are removed, then the oldest ones.
LONGEST_S = 7 * 24 * 3600
MOST_BYTES = 2 << 30
_ODD = re.compile(r"[^\w.+=,-]", re.ASCII)


class RunFolder:
    """The folder of a run below ``failures``. It is created when it is first needed."""

    def __init__(self, failures: Path, pins: Mapping[str, str]) -> None:
        self._failures = failures
        words = ",".join(f"{name}={release}" for name, release in pins.items())
        self._name = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime()) + (f"@{_ODD.sub('-', words)}" if pins else "")
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        """The folder, made and locked until this process ends. Raise OSError."""
        if self._path is None:
            self._path = self._make()
        return self._path

    def _make(self) -> Path:
        for number in count(1):
            path = self._failures / (self._name[:200] + (f".{number}" if number > 1 else ""))
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_SH)
            self._prune()
            return path
        raise AssertionError

    def reopen(self, path: Path) -> None:
        """Use the folder of an earlier run, and lock it until this process ends. Raise OSError, also if it is in use."""
        fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._path = path

    def _prune(self) -> None:
        """Remove the oldest folders of finished runs. Folders of running processes, also of this one, are locked."""
        size = 0
        oldest = (time.time() - LONGEST_S) * 1e9
        for run in sorted(os.scandir(self._failures), key=_modified, reverse=True):
            size += _size(run.path)
            if (_modified(run) < oldest or size > MOST_BYTES) and not is_held(Path(run.path)):
                remove_folder(run.path)


def _modified(run: os.DirEntry[str]) -> int:
    # Another process may remove it.
    with suppress(FileNotFoundError):
        return run.stat().st_mtime_ns
    return 0


def _size(folder: str) -> int:
    size = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += os.lstat(os.path.join(base, name)).st_size
    return size
