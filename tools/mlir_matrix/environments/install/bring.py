"""Have environments here, whole, with whoever waits for that hearing of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from mlir_matrix.events import Listener, PackageProgress, Tick

if TYPE_CHECKING:
    # Where nothing is missing, nothing of it need be imported.
    from mlir_matrix.environments.fetch.artifacts import Artifacts
    from mlir_matrix.environments.resolve import ResolvedEnvironment

_TICK_S = 0.25


def bring(
    environments: Iterable[ResolvedEnvironment],
    packages: Path,
    artifacts: Artifacts,
    listener: Listener,
) -> dict[str, str]:
    """Make what is missing in ``packages``, the small environments first; what went wrong, by the unit's label.

    ``listener`` is called in the caller's thread, with a Tick several times a second.
    """
    todo = sorted((each for each in environments if each.missing(packages)), key=lambda each: each.size)
    if not todo:
        return {}
    import queue
    import threading

    from mlir_matrix.environments.install.installer import Installer

    events: queue.SimpleQueue[PackageProgress | None] = queue.SimpleQueue()
    errors: dict[str, str] = {}
    packages.mkdir(parents=True, exist_ok=True)
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
            if event.error:
                errors[event.package] = event.error
            listener(event)
    finally:
        installer.close()
