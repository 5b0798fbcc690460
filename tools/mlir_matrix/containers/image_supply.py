"""Build images for the environments of a run in a thread, with precompiled Python, after packages are installed."""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.events import PackageProgress
from mlir_matrix.base.files import Cancelled
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.models.toolchains import Containers
from mlir_matrix.containers import images, privileges
from mlir_matrix.containers.container import start
from mlir_matrix.containers.daemon import Daemon
from mlir_matrix.containers.privileges import User
from mlir_matrix.containers.reaper import remove, remove_ours
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.action_cache import write_bytes
from mlir_matrix.execute.keys import ACTIONS_FOLDER
from mlir_matrix.execute.worker_pool import PackageSupply
from mlir_matrix.execute.worker_process import Preload

if TYPE_CHECKING:
    from mlir_matrix.execute.worker_pool import PoolContext

#: Seconds to wait for the thread when the run ends: requests to a daemon cannot be interrupted.
_PATIENCE_S = 5.0
#: Limits of a container that only imports.
_MEMORY_MB, _TIMEOUT_S = 4096, 300


class ImageSupply(PackageSupply):
    """Builds images. An environment is ready once it has one."""

    def __init__(self, context: PoolContext, daemon: Daemon, user: User, settings: Containers) -> None:
        super().__init__(context.home, context.wake)
        self._context = context
        self._daemon = daemon
        self._user = user
        self._settings = settings
        #: Environments whose packages are not complete.
        self._waiting: dict[str, ResolvedEnvironment] = {}
        #: The IDs of images, by the digest of their environment.
        self._images: dict[str, str] = {}
        #: Environments whose images are being built, or are queued.
        self._building: set[str] = set()
        self._todo: queue.SimpleQueue[ResolvedEnvironment | None] = queue.SimpleQueue()
        self._cancelled = threading.Event()
        self._thread: threading.Thread | None = None

    def request(self, environments: Iterable[ResolvedEnvironment]) -> None:
        """Build images of these environments."""
        known = self._images.keys() | self._building
        wanted = {each.digest: each for each in environments if each.digest not in known}
        super().request(wanted.values())
        self._waiting |= wanted
        self._queue_complete()

    def _queue_complete(self) -> None:
        """Queue environments whose packages are complete."""
        for environment in [each for each in self._waiting.values() if super(ImageSupply, self).has(each)]:
            del self._waiting[environment.digest]
            if self._thread is None:
                self._thread = threading.Thread(target=self._make_all, name="images", daemon=True)
                self._thread.start()
            self._building.add(environment.digest)
            self._todo.put(environment)

    def news(self) -> Iterator[PackageProgress]:
        yield from super().news()
        self._queue_complete()

    def has(self, environment: ResolvedEnvironment) -> bool:
        return environment.digest in self._images

    def is_idle(self) -> bool:
        return not self._building and super().is_idle()

    def image(self, environment: ResolvedEnvironment) -> str:
        """Return the ID of the image of an environment."""
        return self._images[environment.digest]

    def lacks(self, environment: ResolvedEnvironment, label: str) -> bool:
        return not self.has(environment) and (label == _label(environment) or super().lacks(environment, label))

    def close(self) -> None:
        """Stop. Complete packages and images stay."""
        self._cancelled.set()
        super().close()
        self._todo.put(None)
        if self._thread is not None:
            self._thread.join(0.1)
            if self._thread.is_alive():
                # The thread may wait for one of this process's containers.
                remove_ours(self._daemon)
            self._thread.join(_PATIENCE_S)

    # In the thread -----------------------------------------------------------------------------------------------

    def _make_all(self) -> None:
        with suppress(Cancelled):
            while (environment := self._todo.get()) is not None:
                self._make_one(environment)
                self._building.discard(environment.digest)

    def _make_one(self, environment: ResolvedEnvironment) -> None:
        label, context = _label(environment), self._context
        try:
            image = images.ensure(
                [environment], home=context.home, daemon=self._daemon, listener=self._tell, settings=self._settings
            )[environment.digest]
            preload = context.preloads.get(environment.digest, Preload(set(), set()))
            precompile(self._daemon, environment, image, preload, home=context.home, user=self._user)
            self._images[environment.digest] = image
        except Cancelled:
            raise
        except InfrastructureError as error:
            self._tell(PackageProgress(package=label, error=str(error)))
        except Exception as error:  # noqa: BLE001 - without an event the run would wait forever
            self._tell(PackageProgress(package=label, error=f"{label} cannot be built: {error}"))
        else:
            self._check()
            self._wake()

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled

    def _tell(self, progress: PackageProgress) -> None:
        self._check()
        self._note(progress)


def _label(environment: ResolvedEnvironment) -> str:
    return f"the image of environment {environment.name}"


def precompile(
    daemon: Daemon,
    environment: ResolvedEnvironment,
    image: str,
    preload: Preload,
    *,
    home: Home,
    user: privileges.User,
) -> None:
    """Compile the modules that an environment's worker imports, unless that was done. Raise InfrastructureError.

    An action that could write bytecode would choose the code of the next one. So only a container that runs no action can.
    """
    folder = privileges.bytecode_folder(environment, home)
    folder.mkdir(parents=True, exist_ok=True)
    stamp = home.bytecode / "containers" / f"{folder.name}.json"
    names = preload.tools | preload.modules
    wanted = {"image": image, "code": _newest(ACTIONS_FOLDER), "tools": sorted(names)}
    known = _read(stamp)
    if known.get("image") == wanted["image"] and known.get("code") == wanted["code"]:
        wanted["tools"] = sorted(names | set(known["tools"]))
        if wanted["tools"] == known["tools"]:
            return
    user.give(folder)
    container, connection = start(
        daemon,
        f"environment {environment.name}",
        image,
        privileges.host_config(
            binds=privileges.precompile_binds(folder), memory_mb=_MEMORY_MB, cpus=privileges.cores()
        ),
        privileges.config(privileges.command(environment, preload, home), user),
    )
    try:
        # Without requests the worker ends after its imports.
        connection.shutdown(socket.SHUT_WR)
        with daemon.plainly(f"compiling what environment {environment.name} imports"):
            code = daemon.client.api.wait(container, timeout=_TIMEOUT_S)["StatusCode"]
    finally:
        connection.close()
        remove(daemon, container)
    if code == 0:
        temporary = stamp.with_name(f"{stamp.name}.{os.getpid()}")
        write_bytes(str(temporary), json.dumps(wanted).encode())
        os.replace(temporary, stamp)


def _newest(folder: Path) -> int:
    """Return the latest modification time of Python files, in nanoseconds. Bytecode is valid for exactly that time."""
    return max(path.stat().st_mtime_ns for path in folder.rglob("*.py"))


def _read(stamp: Path) -> dict[str, Any]:
    try:
        known = json.loads(stamp.read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
