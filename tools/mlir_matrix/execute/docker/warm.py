"""Compiled Python for containers, which cannot keep any: what tools import is compiled once, in a container of its own.

That one runs nobody's code but imports alone, and is the only one that can write there: an action that could would choose
what the next one runs.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.action_cache import write_bytes
from mlir_matrix.execute.docker import options
from mlir_matrix.execute.docker.container import start
from mlir_matrix.execute.docker.containers import remove
from mlir_matrix.execute.keys import ACTIONS_FOLDER
from mlir_matrix.images.daemon import Daemon
from mlir_matrix.images.images import Image
from mlir_matrix.paths import Home

#: MiB and seconds for imports alone.
_MEMORY_MB, _TIMEOUT_S = 4096, 300


def warm(
    daemon: Daemon, environment: ResolvedEnvironment, image: Image, *, tools: set[str], home: Home, user: options.User
) -> None:
    """Compile what an environment's tools import, unless that was done. Raises InfrastructureError."""
    folder = options.bytecode_folder(environment, home)
    folder.mkdir(parents=True, exist_ok=True)
    stamp = home.bytecode / "containers" / f"{folder.name}.json"
    wanted = {"image": image.id, "code": _newest(ACTIONS_FOLDER), "tools": sorted(tools)}
    known = _read(stamp)
    if known.get("image") == wanted["image"] and known.get("code") == wanted["code"]:
        wanted["tools"] = sorted(tools | set(known["tools"]))
        if wanted["tools"] == known["tools"]:
            return
    user.give(folder)
    container, connection = start(
        daemon,
        f"environment {environment.name}",
        image.id,
        options.host_config(binds=options.warming_binds(folder), memory_mb=_MEMORY_MB, cpus=options.cores()),
        options.config(options.command(environment, image, tools, home), user),
    )
    try:
        # The end of its requests: it has nothing to do but to import.
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
    """When one of our own files last changed: compiled files are for the very time. Nanoseconds."""
    return max(path.stat().st_mtime_ns for path in folder.rglob("*.py"))


def _read(stamp: Path) -> dict[str, Any]:
    try:
        known = json.loads(stamp.read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
