"""What a container of ours may do and see: nothing but what its action needs."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mlir_matrix.actions.runtime.contract import INPUT_FOLDER
from mlir_matrix.actions.runtime.isolation import CLEAN_ENVIRONMENT
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.docker.reaper import LABEL, me
from mlir_matrix.execute.job import BUILDING
from mlir_matrix.execute.keys import ACTIONS_FOLDER
from mlir_matrix.execute.options import Limits
from mlir_matrix.execute.worker_process import serving, worker_command
from mlir_matrix.images.images import Image
from mlir_matrix.paths import Home

#: Where things are inside. The action's folder has nothing beside it.
FOLDER = "/work/action"
_CODE, _BYTECODE = PurePosixPath("/matrix/code/mlir_matrix"), PurePosixPath("/matrix/bytecode")
#: MiB that a worker itself may take, with what it has imported, beyond what its action may.
_OWN_MB = 1024
#: Processes and threads in a container.
MOST_PROCESSES = 1024
#: Open files of one process, and processes of all containers together.
_MOST_BY_LIMITS = 16384
#: Where Podman puts room to write into a container whose root is read-only, unless there is something.
_SCRATCH = ("/run", "/tmp", "/var/tmp")  # noqa: S108 - nobody can write there
#: What could stay in a container from one action to the next although no file does: there can be none of it.
_NO_LEFTOVERS = {"kernel.shmmni": "0", "kernel.msgmni": "0", "kernel.sem": "0 0 0 0", "fs.mqueue.queues_max": "0"}


@dataclass(frozen=True, kw_only=True)
class User:
    """Who runs in a container, as the container and as this machine see it."""

    inside: str
    #: The owner that writable folders must have for that; -1: it is ourselves.
    owner: int = -1

    def give(self, *folders: Path | str) -> None:
        """Let it write to these folders."""
        for folder in folders:
            os.chmod(folder, 0o755)  # noqa: S103 - it is somebody else who goes in
            os.chown(folder, self.owner, self.owner)


def choose_user(images_own: int, *, rootless: bool) -> User:
    """Never this machine's root: ourselves, or the images' own user where we are root.

    A daemon without root maps the container's root, who has no privileges left, to ourselves.
    """
    if rootless:
        return User(inside="0:0")
    if os.geteuid() == 0:
        return User(inside=f"{images_own}:{images_own}", owner=images_own)
    return User(inside=f"{os.geteuid()}:{os.getegid()}")


def command(environment: ResolvedEnvironment, image: Image, tools: set[str], home: Home) -> list[str]:
    """The command line of a worker inside."""
    return worker_command(
        environment,
        store=home.packages,
        at=Path(image.packages),
        actions=Path(_CODE, ACTIONS_FOLDER.name),
        bytecode=Path(_BYTECODE),
        arguments=serving(tools),
    )


def bytecode_folder(environment: ResolvedEnvironment, home: Home) -> Path:
    """Where the compiled Python of an environment is kept, as its containers see it."""
    return home.bytecode / "containers" / environment.digest[:32]


def action_binds(folder: str, bytecode: Path) -> list[str]:
    """The folders of a container that runs actions: its own is the only one it can write to."""
    return [
        f"{folder}:{FOLDER}:rw",
        f"{folder}/{INPUT_FOLDER}:{FOLDER}/{INPUT_FOLDER}:ro",
        f"{bytecode}:{_BYTECODE}:ro",
        *_code_binds(),
    ]


def precompile_binds(bytecode: Path) -> list[str]:
    """The folders of a container that runs nobody's code and compiles what will be imported."""
    return [f"{bytecode}:{_BYTECODE}:rw", *_code_binds()]


def _code_binds() -> list[str]:
    package = ACTIONS_FOLDER.parent
    return [f"{path}:{_CODE}/{path.name}:ro" for path in (ACTIONS_FOLDER, package / "__init__.py")]


def host_config(*, binds: list[str], memory_mb: int, cpus: float) -> dict[str, Any]:
    """What the daemon is asked to take away, in its library's words."""
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
        # Together: no swap.
        "memswap_limit": memory,
        "nano_cpus": round(cpus * 1e9),
        "ulimits": list(_ulimits()),
        # Nobody reads it later, and a container may say more than the disk holds.
        "log_config": {"type": "none"},
    }


def _ulimits() -> Iterator[dict[str, Any]]:
    """Limits of a user or a process. Podman would set others by itself, which not every machine lets it set."""
    for name, kind in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        soft, _ = resource.getrlimit(kind)
        value = _MOST_BY_LIMITS if soft == resource.RLIM_INFINITY else min(soft, _MOST_BY_LIMITS)
        yield {"Name": name, "Soft": value, "Hard": value}


def config(words: list[str], user: User) -> dict[str, Any]:
    """What the container is, in the same words."""
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
    """MiB of a container."""
    return limits.memory_mb + _OWN_MB


def cpus_of(tools: set[str], limits: Limits) -> float:
    """CPUs of a container: its share of those that there are; all of them to build what is ours, which is done once."""
    return cores() if tools & BUILDING else max(1.0, cores() / limits.jobs)


def cores() -> int:
    """CPUs that there are for us."""
    return len(os.sched_getaffinity(0))
