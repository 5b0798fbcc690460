"""Install environments: their packages in parallel, each once, in the order of the request.

Each package gets a separate folder, which is moved into place when it is complete. So a killed installation leaves no incomplete
package. Interrupted downloads resume.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

from mlir_matrix.base.errors import DiskFullError, InfrastructureError, UnavailableError
from mlir_matrix.base.events import Event, Listener, Note, PackageListener, PackageProgress, Tick, ignore
from mlir_matrix.base.files import Cancelled
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.fetch.download import NotFoundError
from mlir_matrix.environments.fetch.http import Transport
from mlir_matrix.environments.fetch.workshop import Pip, Workshop
from mlir_matrix.environments.install.debian import install_debian
from mlir_matrix.environments.install.wheel import install_wheel
from mlir_matrix.environments.interpreter import Interpreter
from mlir_matrix.environments.lockfiles.debian import DebianRelease
from mlir_matrix.environments.lockfiles.wheels import WheelPackage
from mlir_matrix.environments.package import Package, is_missing
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.source import command_lines as commands
from mlir_matrix.environments.source.build import build_source, check_tools
from mlir_matrix.environments.source.package import SourceBuild
from mlir_matrix.environments.state import no_room, shortage

_TICK_S = 0.25
_THREADS = 3

#: The function that installs a package, by provider. Host tools have no folder and are never missing.
_INSTALL: Mapping[type, Callable[..., object]] = {
    WheelPackage: install_wheel,
    DebianRelease: install_debian,
    SourceBuild: build_source,
}


class Installer:
    """Installs packages in threads, which also call ``listener``."""

    def __init__(self, store: Path, listener: PackageListener, *, artifacts: Artifacts) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="install")
        #: Installations, by the folder of their package.
        self._asked: dict[str, Future[None]] = {}
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
        """Start to install every missing package of these environments, the first ones first."""
        for environment in environments:
            self._nearest.update(environment.nearest)
            for package in environment.missing(self._workshop.packages):
                name = package.folder_for(environment.interpreter.tag)
                if name not in self._asked:
                    self._asked[name] = self._pool.submit(self._run, package, environment.interpreter)

    def is_idle(self) -> bool:
        """Return whether all requested installations have ended and sent their last event."""
        return all(installation.done() for installation in self._asked.values())

    def finish(self) -> None:
        """Wait until all requested installations have ended."""
        self._pool.shutdown(wait=True)
        self._workshop.transport.close()

    def close(self) -> None:
        """Stop all installations; complete packages stay."""
        self._workshop.cancelled.set()
        self._workshop.pip.stop()
        # Wake threads that wait for bytes.
        self._workshop.transport.abort()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._workshop.transport.close()

    def _run(self, package: Package, interpreter: Interpreter) -> None:
        label, tell = package.label, self._workshop.listener
        try:
            tell(PackageProgress(package=label))
            install(package, interpreter, self._workshop)
            tell(PackageProgress(package=label, done=True))
        except Cancelled:
            return
        except NotFoundError as error:
            other = self._nearest.get(label)
            hint = f"; use the nearest other release: --pin {other}" if other else ""
            tell(PackageProgress(package=label, error=f"{error}{hint}"))
        except UnavailableError as error:
            tell(PackageProgress(package=label, error=f"{label}: {error}", unavailable=True))
        except InfrastructureError as error:
            tell(PackageProgress(package=label, error=str(error), disk_full=isinstance(error, DiskFullError)))
        except Exception as error:  # noqa: BLE001 - otherwise the thread would end without a message
            tell(PackageProgress(package=label, error=f"{label} cannot be installed: {error}"))


def install(package: Package, interpreter: Interpreter, workshop: Workshop) -> None:
    """Install a package and its needs if they are missing. Raise InfrastructureError, Cancelled."""
    if not is_missing(package, workshop.packages, interpreter.tag):
        return
    if isinstance(package, SourceBuild):
        # Checked before gigabytes of its needs are downloaded.
        check_tools(package)
    for need in package.needs:
        install(need, interpreter, workshop)
    _INSTALL[type(package)](package, interpreter, workshop)


def dry_run(package: Package, packages: Path, cache: Path) -> Iterator[str]:
    """Yield the steps of an installation as comments and shell commands, without running them."""
    if isinstance(package, SourceBuild):
        yield from commands.dry_run(commands.Places(packages, cache, package))
    else:
        yield f"# {package.label}: download and install it in {packages}"


def install_all(
    environments: Iterable[ResolvedEnvironment],
    packages: Path,
    artifacts: Artifacts,
    listener: Listener,
) -> dict[str, str]:
    """Install missing packages in ``packages``, small environments first. Return errors by the package's label.

    The caller's thread calls ``listener``, with a Tick several times a second. Raise DiskFullError.
    """
    todo = sorted((each for each in environments if each.missing(packages)), key=lambda each: each.size)
    if not todo:
        return {}
    events: queue.SimpleQueue[PackageProgress | None] = queue.SimpleQueue()
    errors: dict[str, str] = {}
    packages.mkdir(parents=True, exist_ok=True)
    lacking = shortage(todo, packages, artifacts)
    if lacking:
        listener(Note(lacking))
    installer = Installer(packages, events.put, artifacts=artifacts)

    def finish() -> None:
        installer.finish()
        events.put(None)

    try:
        installer.request(todo)
        threading.Thread(target=finish, daemon=True).start()
        while True:
            listener(Tick())
            try:
                event = events.get(timeout=_TICK_S)
            except queue.Empty:
                continue
            if event is None:
                return errors
            if event.disk_full:
                raise no_room(event.error, todo, packages, artifacts)
            if event.error:
                errors[event.package] = event.error
            listener(event)
    finally:
        installer.close()


def require(session: Session, environment: ResolvedEnvironment, listener: Listener = ignore) -> None:
    """Install an environment. Raise InfrastructureError with all errors."""
    home = session.home
    errors = install_all([environment], home.packages, Artifacts(home.artifacts), listener)
    if errors:
        raise InfrastructureError("; ".join(errors.values()))


#: A function that prints a message.
Tell = Callable[[str], object]
#: A function that returns a context in which progress is shown.
Progress = Callable[[], AbstractContextManager[Listener]]


def install_missing(
    session: Session,
    environments: Iterable[ResolvedEnvironment],
    progress: Progress,
    tell: Tell,
    *,
    others: Sequence[Path] = (),
    packages: Path | None = None,
) -> list[str]:
    """Install missing packages in ``packages`` (default: of the session). Return the errors. ``others`` may have archives."""
    folder = packages or session.home.packages
    todo = [environment for environment in environments if environment.missing(folder)]
    if not todo:
        return []
    artifacts = Artifacts(session.home.artifacts, others)
    try:
        with progress() as listener:

            def without_errors(event: Event) -> None:
                # The caller reports errors at the end, together.
                if not (isinstance(event, PackageProgress) and event.error):
                    listener(event)

            return list(install_all(todo, folder, artifacts, without_errors).values())
    finally:
        for line in artifacts.passed_over.values():
            tell(f"matrix: --from: {line}")
