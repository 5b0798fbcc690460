"""Bring the packages and prefixes of environments here: in parallel, each once, in order of who is waited for.

Each goes into a folder of its own, which is moved into place when complete: a killed installation leaves nothing half
done, and what was fetched until then is not fetched again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.download import Gone
from mlir_matrix.environments.fetch.http import Transport
from mlir_matrix.environments.install.wheel import Pip
from mlir_matrix.environments.interpreter import Interpreter
from mlir_matrix.environments.package import Unit, Workshop
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.events import PackageListener, PackageProgress
from mlir_matrix.files import Cancelled


class Installer:
    """Installs packages in threads; ``listener`` is called from those threads."""

    def __init__(self, store: Path, listener: PackageListener, *, artifacts: Artifacts, parallel: int = 3) -> None:
        self._pool = ThreadPoolExecutor(parallel, thread_name_prefix="install")
        self._asked: set[str] = set()
        self._nearest: dict[str, str] = {}
        cancelled = threading.Event()
        self._workshop = Workshop(
            packages=store,
            artifacts=artifacts,
            pip=Pip(cancelled),
            transport=Transport(),
            listener=listener,
            cancelled=cancelled,
        )

    def request(self, environments: Iterable[ResolvedEnvironment]) -> None:
        """Ask for every missing package of these environments, the first ones first."""
        for environment in environments:
            self._nearest.update(environment.nearest)
            for unit in environment.missing(self._workshop.packages):
                name = unit.folder_for(environment.interpreter.tag)
                if name not in self._asked:
                    self._asked.add(name)
                    self._pool.submit(self._bring, unit, environment.interpreter)

    def finish(self) -> None:
        """Wait for everything that was asked for."""
        self._pool.shutdown(wait=True)
        self._workshop.transport.close()

    def close(self) -> None:
        """Stop what is going on; what is complete stays."""
        self._workshop.cancelled.set()
        self._workshop.pip.stop()
        # Threads that wait for bytes would wait on.
        self._workshop.transport.abort()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._workshop.transport.close()

    def _bring(self, unit: Unit, interpreter: Interpreter) -> None:
        label, tell = unit.label, self._workshop.listener
        try:
            tell(PackageProgress(package=label))
            unit.provide(self._workshop, interpreter)
            tell(PackageProgress(package=label, done=True))
        except Cancelled:
            return
        except Gone as error:
            other = self._nearest.get(label)
            hint = f"; the nearest other release is had by --pin {other}" if other else ""
            tell(PackageProgress(package=label, error=f"{error}{hint}"))
        except InfrastructureError as error:
            tell(PackageProgress(package=label, error=str(error)))
        except Exception as error:  # noqa: BLE001 - a thread that ends in silence would leave everyone waiting
            tell(PackageProgress(package=label, error=f"{label} cannot be installed: {error}"))
