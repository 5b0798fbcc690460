"""Podman's service that speaks Docker's language, of the tests' own, from the component ``podman``.

All that it keeps is below its folder, but for a cache of digests that root's Podman has in /var/lib/containers/cache.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mlir_matrix.actions.sandbox.isolation import die_with_parent
from mlir_matrix.environments.installer import require
from mlir_matrix.environments.selection import prefix_of
from mlir_matrix.environments.session import Session
from support.daemon import Daemon, end, unmount, wait

#: runc, because crun wants all control groups to be of one version; locks in files, because other Podmans share those in memory.
_ENGINE = """\
[engine]
cgroup_manager = "cgroupfs"
conmon_path = ["{prefix}/usr/bin/conmon"]
events_logger = "none"
helper_binaries_dir = ["{prefix}/usr/lib/podman"]
lock_type = "file"
runtime = "runc"
static_dir = "{data}/static"
tmp_dir = "{short}/tmp"
volume_path = "{data}/volumes"

[engine.runtimes]
runc = ["{prefix}/usr/sbin/runc"]

[network]
network_config_dir = "{data}/networks"
"""
_STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{data}/images"
runroot = "{short}/run"
"""
_PATIENCE_S = 5
#: What images it may be given: anybody's.
_POLICY = {"default": [{"type": "insecureAcceptAnything"}]}


@contextmanager
def podmand(session: Session, folder: Path) -> Iterator[Daemon]:
    """A service with its data below ``folder``, ready; ended with its containers, and what it mounted unmounted, at the end."""
    environment, prefix = prefix_of(session, "podman")
    require(session, environment)
    program = prefix / "usr/bin/podman"
    folder.mkdir(parents=True, exist_ok=True)
    # The path of a socket has no more than 107 bytes, and each container has one.
    with tempfile.TemporaryDirectory(prefix="podmand-") as short:
        variables = _configure(Path(short), data=folder / "data", prefix=prefix)
        host, log = f"unix://{short}/podman.sock", folder / "podman.log"
        own = [program, "--log-level", "info", "--runtime-flag", f"root={short}/runc"]
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [*own, "system", "service", "--time", "0", host],
                # What watches a container writes a file into it where that runs out of memory.
                cwd=short, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True, preexec_fn=die_with_parent,  # noqa: PLW1509 - no threads of ours
            )  # fmt: skip
        try:
            wait(process, f"{short}/podman.sock", log)
            yield Daemon(host=host, client=program, log=log, pid=process.pid)
        finally:
            # They do not end with the service, and need none to be ended.
            words = [*own, "rm", "--all", "--force", "--time", "0"]
            subprocess.run(words, cwd=short, env=variables, capture_output=True, check=False)
            end(process, short)
            _remove_groups(log)
            for place in (short, os.path.realpath(folder)):
                unmount(place)


def _configure(short: Path, *, data: Path, prefix: Path) -> dict[str, str]:
    """Write its settings; gives the variables by which it finds them, and nothing of the machine's."""
    files = {"engine.conf": _ENGINE, "storage.conf": _STORAGE}
    for name, text in files.items():
        (short / name).write_text(text.format(prefix=prefix, data=data, short=short), encoding="utf-8")
    policy = short / ".config/containers/policy.json"
    policy.parent.mkdir(parents=True)
    policy.write_text(json.dumps(_POLICY), encoding="utf-8")
    return {
        "CONTAINERS_CONF": f"{short}/engine.conf",
        "CONTAINERS_STORAGE_CONF": f"{short}/storage.conf",
        "HOME": str(short),
        "PATH": ":".join(str(prefix / name) for name in ("usr/bin", "usr/sbin")),
        # Version 1 of control groups is on its way out, and still there.
        "PODMAN_IGNORE_CGROUPSV1_WARNING": "1",
        "TMPDIR": str(short),
    }


def _remove_groups(log: Path) -> None:
    """Remove the control groups of its containers: it forgets those that end while it removes them."""
    containers = set(re.findall(r"/containers/([0-9a-f]{64})/", log.read_text(errors="replace")))
    until = time.monotonic() + _PATIENCE_S
    # Whoever was in one and has been killed may not be gone yet.
    while (groups := list(_groups(containers))) and time.monotonic() < until:
        for group in groups:
            with suppress(OSError):
                group.rmdir()
        time.sleep(0.05)


def _groups(containers: Iterable[str]) -> Iterator[Path]:
    """Those that are there, of version 2 and of version 1."""
    for container in containers:
        for pattern in ("", "*/"):
            yield from Path("/sys/fs/cgroup").glob(f"{pattern}libpod_parent/libpod-{container}")
