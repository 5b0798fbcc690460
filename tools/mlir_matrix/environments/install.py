"""Bring the packages of environments here: in parallel, checked by hash, each once, in order of who is waited for.

pip does the work, with the machine's own configuration of indexes, proxies and certificates. A package is installed
into a folder of its own and moved into place when complete, so that a killed installation leaves nothing half done.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.environments.interpreter import Interpreter
from mlir_matrix.environments.lock import Package
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import InfrastructureError

_RAW_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")


@dataclass(frozen=True, kw_only=True)
class PackageProgress:
    """One event: a package's bytes so far and in all (0 when unknown), then ``done`` or ``error``."""

    package: str
    received: int = 0
    total: int = 0
    done: bool = False
    error: str = ""


Listener = Callable[[PackageProgress], None]


@contextmanager
def _locked(path: Path, cancelled: threading.Event) -> Iterator[None]:
    """Keep other processes from installing the same package at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # Somebody else installs it. Waiting must not outlast the run.
                if cancelled.wait(0.2):
                    raise _Cancelled from None
        yield


def _pip_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


class _Cancelled(Exception):
    """The run ended while this package was being installed."""


class Installer:
    """Installs packages in threads; ``listener`` is called from those threads."""

    def __init__(self, store: Path, listener: Listener, *, parallel: int = 3) -> None:
        self._store = store
        self._listener = listener
        self._pool = ThreadPoolExecutor(parallel, thread_name_prefix="install")
        self._asked: set[str] = set()
        self._processes: set[subprocess.Popen[str]] = set()
        self._guard = threading.Lock()
        self._cancelled = threading.Event()

    def request(self, environments: Iterable[ResolvedEnvironment]) -> None:
        """Ask for every missing package of these environments, the first ones first."""
        for environment in environments:
            for package in environment.missing(self._store):
                folder = package.folder(environment.interpreter.tag)
                if folder not in self._asked:
                    self._asked.add(folder)
                    self._pool.submit(self._install, package, environment.interpreter)

    def finish(self) -> None:
        """Wait for everything that was asked for."""
        self._pool.shutdown(wait=True)

    def close(self) -> None:
        """Stop what is going on; what is complete stays."""
        with self._guard:
            self._cancelled.set()
            for process in self._processes:
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _install(self, package: Package, interpreter: Interpreter) -> None:
        label = f"{package.name} {package.version}"
        try:
            self._listener(PackageProgress(package=label))
            folder = package.folder(interpreter.tag)
            with _locked(self._store / ".locks" / folder, self._cancelled):
                if not (self._store / folder).is_dir():
                    self._fetch(package, interpreter, self._store / folder)
            self._listener(PackageProgress(package=label, done=True))
        except _Cancelled:
            return
        except InfrastructureError as error:
            self._listener(PackageProgress(package=label, error=str(error)))
        except Exception as error:  # noqa: BLE001 - a thread that ends in silence would leave everyone waiting
            self._listener(PackageProgress(package=label, error=f"{label} cannot be installed: {error}"))

    def _fetch(self, package: Package, interpreter: Interpreter, destination: Path) -> None:
        prefix = f".new-{destination.name}-"
        for left in self._store.glob(f"{prefix}*"):
            # We hold the lock, so whoever made it is gone.
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=prefix, dir=self._store) as scratch:
            requirements = Path(scratch, "requirements.txt")
            requirements.write_text(package.requirement + "\n", encoding="utf-8")
            target = Path(scratch, "site")
            command = [
                *(sys.executable, "-m", "pip", "--python", interpreter.path, "install"),
                *("--no-deps", "--no-compile", "--require-hashes", "--only-binary=:all:", "--no-input"),
                *("--disable-pip-version-check", "--root-user-action=ignore", "--progress-bar=raw"),
                *("--target", str(target), "--requirement", str(requirements)),
            ]
            if Path(interpreter.path) == Path(sys.executable).resolve():
                command[3:5] = []
            code, tail = self._call(command, package)
            if code != 0:
                raise InfrastructureError(_explain(package, tail))
            shutil.rmtree(target / "bin", ignore_errors=True) if package.name != "ziglang" else None
            os.replace(target, destination)

    def _call(self, command: list[str], package: Package) -> tuple[int, list[str]]:
        label = f"{package.name} {package.version}"
        with self._guard:
            if self._cancelled.is_set():
                raise _Cancelled
            process = subprocess.Popen(
                command,
                env=_pip_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            self._processes.add(process)
        tail: list[str] = []
        assert process.stdout is not None
        for line in process.stdout:
            progress = _RAW_PROGRESS.match(line)
            if progress:
                received, total = map(int, progress.groups())
                self._listener(PackageProgress(package=label, received=received, total=total))
            elif line.strip() and "is ignored: it is neither" not in line:
                tail = [*tail[-19:], line.rstrip()]
        process.stdout.close()
        code = process.wait()
        with self._guard:
            self._processes.discard(process)
            if self._cancelled.is_set():
                raise _Cancelled
        return code, tail


def _explain(package: Package, tail: list[str]) -> str:
    text = "\n".join(tail)
    label = f"{package.name} {package.version}"
    if "No matching distribution" in text or "Could not find a version" in text:
        advice = f"{label} is not on the package indexes that pip is configured with (see: pip config list)"
        if "+cpu" in package.version:
            advice += "; add the index of PyTorch's CPU builds there, or set PIP_EXTRA_INDEX_URL"
        return advice
    if "DO NOT MATCH THE HASHES" in text:
        return f"{label} was offered with another hash than the lock has; it was not installed"
    if "No space left" in text:
        return f"{label} cannot be installed: the disk is full"
    return f"{label} cannot be installed; pip says: {tail[-1] if tail else 'nothing'}"
