"""What a worker process takes away from itself before it runs anybody's code: network, environment, descriptors.

Everything here is best effort by design of the platform, not by choice: an unprivileged user on a kernel without user
namespaces keeps the network. ``matrix doctor`` tells which of these hold.
"""

from __future__ import annotations

import ctypes
import os
import resource

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SIGKILL = 9

#: The whole environment that an action sees, but for the folders, which are its own.
CLEAN_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PATH": "",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "SOURCE_DATE_EPOCH": "0",
}

_libc = ctypes.CDLL(None, use_errno=True)


def drop_network() -> bool:
    """Move this single-threaded process into a network namespace of its own, with not even a loopback up.

    Returns whether that worked: it needs root or unprivileged user namespaces.
    """
    uid, gid = os.getuid(), os.getgid()
    flags = _CLONE_NEWNET if uid == 0 else _CLONE_NEWNET | _CLONE_NEWUSER
    if _libc.unshare(flags) != 0:
        return False
    if uid != 0:
        # Without a map the process would be «nobody» to tools that look up their owner.
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            try:
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
            except OSError:
                return True
    return True


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends, however that happens."""
    _libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, so that none can hide by forking twice."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def limit_resources(*, memory_mb: int) -> None:
    """Bound the private memory (MiB) and the size of files (4 GiB) of this process; no core dumps."""
    memory = memory_mb << 20
    for kind, value in (
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_FSIZE, 4 << 30),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, hard))
