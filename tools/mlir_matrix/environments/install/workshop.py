"""Shared state of one installer: folders, connections, calls of pip."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.http import Transport
from mlir_matrix.events import PackageListener
from mlir_matrix.files import Cancelled


class Pip:
    """Runs pip; :meth:`stop` ends all running calls."""

    def __init__(self, cancelled: threading.Event) -> None:
        self._cancelled = cancelled
        self._guard = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()

    def call(self, arguments: list[str]) -> tuple[int, str]:
        """Return pip's exit code and output. Raises Cancelled."""
        with self._guard:
            if self._cancelled.is_set():
                raise Cancelled
            process = subprocess.Popen(
                [sys.executable, "-m", "pip", *arguments, "--no-input", "--disable-pip-version-check"],
                env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
            self._processes.add(process)
        said, _ = process.communicate()
        with self._guard:
            self._processes.discard(process)
            if self._cancelled.is_set():
                raise Cancelled
        return process.returncode, said

    def stop(self) -> None:
        """End all calls, whose callers get Cancelled. Set the event first."""
        with self._guard:
            for process in self._processes:
                process.terminate()


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Where packages are installed, and with what."""

    #: Holds one folder for each package.
    packages: Path
    artifacts: Artifacts
    pip: Pip
    transport: Transport
    listener: PackageListener
    cancelled: threading.Event
    #: Held by a package that uses all connections and all cores.
    turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def cache(self) -> Path:
        """The folder of everything that can be downloaded or made again."""
        return self.artifacts.folder.parent
