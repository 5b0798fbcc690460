"""Compute privileges and mounts of a container: only those of its action."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mlir_matrix.actions.contract import INPUT_FOLDER
from mlir_matrix.actions.sandbox.isolation import CLEAN_ENVIRONMENT
from mlir_matrix.base.paths import Home
from mlir_matrix.containers.layers import PACKAGES
from mlir_matrix.containers.reaper import LABEL, me
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.keys import ACTIONS_FOLDER
from mlir_matrix.execute.worker_process import Preload, serving, worker_command
from mlir_matrix.plan.graph import BUILDING
from mlir_matrix.plan.request import Limits

#: Paths in a container. The parent of the action's folder contains nothing else.
FOLDER = "/work/action"
_CODE, _BYTECODE = PurePosixPath("/matrix/code/mlir_matrix/actions"), PurePosixPath("/matrix/bytecode")
_CODE_BIND = f"{ACTIONS_FOLDER}:{_CODE}:ro"
#: MiB for the worker itself and its imports, in addition to those of an action.
_OWN_MB = 1024
#: Processes and threads in a container.
MOST_PROCESSES = 1024
#: Open files of one process, and processes of all containers together.
_MOST_BY_LIMITS = 16384
#: Podman mounts writable folders here, even if the root is read-only, unless something is mounted.
_SCRATCH = ("/run", "/tmp", "/var/tmp")  # noqa: S108 - they are read-only
#: Shared memory, queues and semaphores would outlive an action; these limits forbid them.
_NO_LEFTOVERS = {"kernel.shmmni": "0", "kernel.msgmni": "0", "kernel.sem": "0 0 0 0", "fs.mqueue.queues_max": "0"}


@dataclass(frozen=True, kw_only=True)
class User:
    """The user of a container, inside it and on this machine."""

    inside: str
    #: The owner of writable folders; -1: the current user.
    owner: int = -1

    def give(self, *folders: Path | str) -> None:
        """Make these folders writable for it."""
        for folder in folders:
            os.chmod(folder, 0o755)  # noqa: S103 - another user reads it
            os.chown(folder, self.owner, self.owner)


def choose_user(images_own: int, *, rootless: bool) -> User:
    """Return a user that is never root on this machine: the current user, or if that is root, the images' own user.

    A rootless daemon maps the container's root, which has no privileges, to the current user.
    """
    if rootless:
        return User(inside="0:0")
    if os.geteuid() == 0:
        return User(inside=f"{images_own}:{images_own}", owner=images_own)
    return User(inside=f"{os.geteuid()}:{os.getegid()}")


def command(environment: ResolvedEnvironment, preload: Preload, home: Home) -> list[str]:
    """Return the command line of a worker in a container."""
    return worker_command(
        environment,
        store=home.packages,
        at=Path(PACKAGES),
        actions=Path(_CODE),
        bytecode=Path(_BYTECODE),
        arguments=serving(preload),
    )


def bytecode_folder(environment: ResolvedEnvironment, home: Home) -> Path:
    """Return the folder of an environment's bytecode for containers."""
    return home.bytecode / "containers" / environment.digest[:32]


def action_binds(folder: str, bytecode: Path) -> list[str]:
    """Return the mounts of a container that runs actions. It can write only to its action's folder."""
    return [
        f"{folder}:{FOLDER}:rw",
        f"{folder}/{INPUT_FOLDER}:{FOLDER}/{INPUT_FOLDER}:ro",
        f"{bytecode}:{_BYTECODE}:ro",
        _CODE_BIND,
    ]


def precompile_binds(bytecode: Path) -> list[str]:
    """Return the mounts of a container that compiles imports and runs no action."""
    return [f"{bytecode}:{_BYTECODE}:rw", _CODE_BIND]


def host_config(*, binds: list[str], memory_mb: int, cpus: float) -> dict[str, Any]:
    """Return the restrictions of a container, as arguments of Docker's library."""
    memory = memory_mb << 20
    return {
        "binds": binds,
        "network_mode": "none",
        "ipc_mode": "none",
        "read_only": True,
        "tmpfs": dict.fromkeys(_SCRATCH, "ro,size=4k,mode=555"),
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "sysctls": _NO_LEFTOVERS,
        "pids_limit": MOST_PROCESSES,
        "mem_limit": memory,
        # Equal limits: no swap.
        "memswap_limit": memory,
        "nano_cpus": round(cpus * 1e9),
        "ulimits": list(_ulimits()),
        # Nothing reads the log, and a container could fill the disk with it.
        "log_config": {"type": "none"},
    }


def _ulimits() -> Iterator[dict[str, object]]:
    """Yield limits of processes and files. Some machines refuse the defaults of Podman."""
    for name, kind in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        soft, _ = resource.getrlimit(kind)
        value = _MOST_BY_LIMITS if soft == resource.RLIM_INFINITY else min(soft, _MOST_BY_LIMITS)
        yield {"Name": name, "Soft": value, "Hard": value}


def config(words: list[str], user: User) -> dict[str, object]:
    """Return command, user and environment of a container, as arguments of Docker's library."""
    return {
        "command": words,
        "user": user.inside,
        "environment": {**CLEAN_ENVIRONMENT, "HOME": FOLDER, "TMPDIR": FOLDER},
        "hostname": "matrix",
        "labels": {LABEL: str(me())},
        "network_disabled": True,
        "stdin_open": True,
    }


def memory_of(limits: Limits) -> int:
    """Return the MiB of a container."""
    return limits.memory_mb + _OWN_MB


def cpus_of(tools: set[str], limits: Limits) -> float:
    """Return the CPUs of a container: its share, or all of them for tools that build libraries."""
    return cores() if tools & BUILDING else max(1.0, cores() / limits.jobs)


def cores() -> int:
    return len(os.sched_getaffinity(0))
