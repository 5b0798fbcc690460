"""Labels that tell which process started a container, and removal of those whose process has ended."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

from mlir_matrix.errors import InfrastructureError
from mlir_matrix.images.daemon import Daemon

#: The label of all our containers; its value identifies the process that started them.
LABEL = "mlir-matrix.run"
#: Podman's error for a container that changes its state.
_ENDING = "container state improper"
_PAUSES_S = (0.05, 0.2, 1.0)


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """A process, told from all others by number, start time, boot and namespace."""

    boot: str
    #: The namespace of process numbers: a daemon may serve several.
    namespace: str
    pid: int
    started: int

    def __str__(self) -> str:
        return f"{self.boot} {self.namespace} {self.pid} {self.started}"

    @classmethod
    def read(cls, label: str) -> Self | None:
        """Return the process that a label names, or None."""
        words = label.split(" ")
        if len(words) != 4 or not (words[2].isdecimal() and words[3].isdecimal()):
            return None
        return cls(boot=words[0], namespace=words[1], pid=int(words[2]), started=int(words[3]))

    def is_gone(self) -> bool:
        """Return whether it has ended for sure. A process that is invisible from here may run."""
        here = me()
        if self.boot != here.boot:
            return False
        return self.namespace == here.namespace and _started(self.pid) != self.started


@cache
def me() -> ProcessIdentity:
    """Return the identity of this process."""
    return ProcessIdentity(
        boot=Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        namespace=os.readlink("/proc/self/ns/pid"),
        pid=os.getpid(),
        started=_started(os.getpid()),
    )


def _started(pid: int) -> int:
    """Return when a process started, in ticks since boot; -1 if it does not run."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # Its name, in parentheses, may hold anything.
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, LookupError):
        return -1


def reap(daemon: Daemon) -> None:
    """Remove the containers of runs that have ended. Raise InfrastructureError."""
    with daemon.plainly("looking for containers that were left behind"):
        found = daemon.client.api.containers(all=True, filters={"label": LABEL})
    for container in _left_behind(found):
        remove(daemon, container)


def remove_ours(daemon: Daemon) -> None:
    """Remove all containers of this process. If the daemon has ended, :func:`reap` of a later run does it."""
    with suppress(InfrastructureError):
        with daemon.plainly("looking for our containers"):
            found = daemon.client.api.containers(all=True, filters={"label": f"{LABEL}={me()}"})
        for container in found:
            remove(daemon, container["Id"])


def _left_behind(found: list[dict[str, Any]]) -> Iterator[str]:
    for container in found:
        owner = ProcessIdentity.read(container["Labels"][LABEL])
        # No container runs across a reboot. One that rests with another boot in its label has no process any more.
        rests = container["State"] in ("exited", "dead")
        if owner is None or owner.is_gone() or (rests and owner.boot != me().boot):
            yield container["Id"]


def remove(daemon: Daemon, container: str) -> None:
    """End and remove a container, unless it or its daemon is gone."""
    from docker.errors import APIError

    with daemon.plainly("removing a container"):
        for pause in (*_PAUSES_S, None):
            try:
                daemon.client.api.remove_container(container, force=True, v=True)
            except APIError as error:
                # Podman refuses to end a container that is ending.
                if pause is not None and _ENDING in str(error.explanation):
                    time.sleep(pause)
                    continue
                # Gone, or being removed by another process.
                if error.status_code not in (404, 409):
                    raise
            return
