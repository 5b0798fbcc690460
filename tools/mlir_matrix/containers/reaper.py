"""Label containers with the process that started them, and remove those whose process has ended."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.containers.daemon import Daemon

#: The label of all containers of runs; its value identifies the process that started them.
LABEL = "mlir-matrix.run"
#: Podman's error while a container changes its state.
_ENDING = "container state improper"
_PAUSES_S = (0.05, 0.2, 1.0)


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """A process, identified by number, start time, boot and namespace."""

    boot: str
    #: The namespace of process numbers. A daemon may serve several.
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
        """Return whether it has certainly ended. A process of another namespace or boot may still run."""
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
            # The name in parentheses may contain anything.
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, LookupError):
        return -1


def reap(daemon: Daemon) -> None:
    """Remove the containers of runs that have ended. Raise InfrastructureError."""
    with daemon.plainly("listing the containers of ended runs"):
        found = daemon.client.api.containers(all=True, filters={"label": LABEL})
    for container in found:
        owner = ProcessIdentity.read(container["Labels"][LABEL])
        # A stopped container with another boot in its label has no process: none survives a reboot.
        stopped = container["State"] in ("exited", "dead")
        if owner is None or owner.is_gone() or (stopped and owner.boot != me().boot):
            remove(daemon, container["Id"])


def remove_ours(daemon: Daemon) -> None:
    """Remove all containers of this process. If the daemon fails, a later run removes them."""
    with suppress(InfrastructureError):
        with daemon.plainly("listing the containers of this run"):
            found = daemon.client.api.containers(all=True, filters={"label": f"{LABEL}={me()}"})
        for container in found:
            remove(daemon, container["Id"])


def remove(daemon: Daemon, container: str) -> None:
    """End and remove a container. Raise InfrastructureError if the daemon fails."""
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
                # Removed, or being removed by another process.
                if error.status_code not in (404, 409):
                    raise
            return
