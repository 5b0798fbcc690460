"""Whose a container is, so that those of runs that were killed are recognised and removed by the next one."""

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

#: The label of all containers that are started here; its value says by which process.
LABEL = "mlir-matrix.run"
#: Podman's words for a container that is between two states.
_ENDING = "container state improper"
_PAUSES_S = (0.05, 0.2, 1.0)


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """A process, told from all others: by its number, when it started, and where such numbers mean something."""

    boot: str
    #: The namespace of process numbers: a daemon may serve several.
    namespace: str
    pid: int
    started: int

    def __str__(self) -> str:
        return f"{self.boot} {self.namespace} {self.pid} {self.started}"

    @classmethod
    def read(cls, label: str) -> Self | None:
        """The owner that a label names; None where it names none."""
        words = label.split(" ")
        if len(words) != 4 or not (words[2].isdecimal() and words[3].isdecimal()):
            return None
        return cls(boot=words[0], namespace=words[1], pid=int(words[2]), started=int(words[3]))

    def is_gone(self) -> bool:
        """Whether it has ended for sure. Who cannot be seen from here may be there."""
        here = me()
        if self.boot != here.boot:
            return False
        return self.namespace == here.namespace and _started(self.pid) != self.started


@cache
def me() -> ProcessIdentity:
    """The process that we are."""
    return ProcessIdentity(
        boot=Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        namespace=os.readlink("/proc/self/ns/pid"),
        pid=os.getpid(),
        started=_started(os.getpid()),
    )


def _started(pid: int) -> int:
    """When a process started, in ticks since the machine did; -1 where there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # Its name, in parentheses, may hold anything.
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, LookupError):
        return -1


def reap(daemon: Daemon) -> None:
    """Remove the containers of runs that have ended without doing so. Raises InfrastructureError."""
    with daemon.plainly("looking for containers that were left behind"):
        found = daemon.client.api.containers(all=True, filters={"label": LABEL})
    for container in _left_behind(found):
        remove(daemon, container)


def remove_ours(daemon: Daemon) -> None:
    """Remove all containers that this process started. Where the daemon is gone, a later run's :func:`reap` will."""
    with suppress(InfrastructureError):
        with daemon.plainly("looking for our containers"):
            found = daemon.client.api.containers(all=True, filters={"label": f"{LABEL}={me()}"})
        for container in found:
            remove(daemon, container["Id"])


def _left_behind(found: list[dict[str, Any]]) -> Iterator[str]:
    for container in found:
        owner = ProcessIdentity.read(container["Labels"][LABEL])
        # Nothing that runs outlives a machine's end; what did not end by itself then was removed by its owner elsewhere.
        rests = container["State"] in ("exited", "dead")
        if owner is None or owner.is_gone() or (rests and owner.boot != me().boot):
            yield container["Id"]


def remove(daemon: Daemon, container: str) -> None:
    """End a container and remove it. One that is gone, or whose daemon is, is none of our trouble any more."""
    from docker.errors import APIError

    with daemon.plainly("removing a container"):
        for pause in (*_PAUSES_S, None):
            try:
                daemon.client.api.remove_container(container, force=True, v=True)
            except APIError as error:
                # Podman refuses to end one that ends at this moment by itself.
                if pause is not None and _ENDING in str(error.explanation):
                    time.sleep(pause)
                    continue
                # Not there, or somebody is at it.
                if error.status_code not in (404, 409):
                    raise
            return
