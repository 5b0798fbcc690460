"""Hold the shared state of one installer: folders, connections, calls of pip."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from mlir_matrix.base.events import PackageListener
from mlir_matrix.base.files import Cancelled
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.http import Transport
from mlir_matrix.environments.fetch.pip import variables


class Pip:
    """Runs pip; :meth:`stop` ends all running calls."""

    def __init__(self, cancelled: threading.Event) -> None:
        self._cancelled = cancelled
        self._guard = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()

    def call(self, arguments: list[str], folder: Path) -> tuple[int, str]:
        """Return pip's exit code and output. ``folder``: for its temporary files. Raise Cancelled."""
        with self._guard:
            if self._cancelled.is_set():
                raise Cancelled
            process = subprocess.Popen(
                [sys.executable, "-m", "pip", *arguments, "--no-input", "--disable-pip-version-check"],
                env=variables(folder),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
            self._processes.add(process)
        output, _ = process.communicate()
        with self._guard:
            self._processes.discard(process)
            if self._cancelled.is_set():
                raise Cancelled
        return process.returncode, output

    def stop(self) -> None:
        """End all calls, which then raise Cancelled. Set the event first."""
        with self._guard:
            for process in self._processes:
                process.terminate()


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """The folders, connections and locks that installations share."""

    #: The folder with one folder for each package.
    packages: Path
    artifacts: Artifacts
    pip: Pip
    transport: Transport
    listener: PackageListener
    cancelled: threading.Event
    #: The lock of an installation that uses all connections and all cores.
    turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def cache(self) -> Path:
        """Return the cache folder of the home."""
        return self.artifacts.folder.parent
