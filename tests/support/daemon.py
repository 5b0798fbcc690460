"""A Docker daemon of the tests' own, from the component ``docker``: nothing of it is the machine's, and nothing stays.

It has no network of its own (no bridge, no rules in the machine's firewall), so that several can run side by side and
beside the machine's; containers have none, or the host's. ``podman`` has the same for Podman.
"""

from __future__ import annotations

import ctypes
import http.client
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.actions.sandbox.isolation import die_with_parent
from mlir_matrix.environments.installer import require
from mlir_matrix.environments.selection import prefix_of
from mlir_matrix.environments.session import Session

#: Of capabilities: what mounting needs.
_SYS_ADMIN = 1 << 21
_DETACH = 2
_START_S, _STOP_S = 120, 20


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """A daemon that runs."""

    #: As ``DOCKER_HOST`` has it.
    host: str
    #: The client's program.
    client: Path
    log: Path
    pid: int

    def docker(self, *words: str) -> str:
        """What the client prints; Podman's knows Docker's words. Raises CalledProcessError."""
        return subprocess.run(
            [self.client, "--host", self.host, *words], stdout=subprocess.PIPE, text=True, check=True
        ).stdout


def unsupported() -> str:
    """Why no daemon can run on this machine; empty where one can."""
    if os.geteuid() != 0:
        return "a container daemon needs root"
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    if not int(status.partition("CapEff:")[2].split()[0], 16) & _SYS_ADMIN:
        return "this container may mount nothing (no CAP_SYS_ADMIN)"
    groups = Path("/sys/fs/cgroup")
    if not (groups / "cgroup.controllers").is_file() and not all(
        (groups / name).is_dir() for name in ("memory", "devices")
    ):
        return "no control groups are mounted in /sys/fs/cgroup"
    if "overlay" not in Path("/proc/filesystems").read_text(encoding="utf-8"):
        return "this kernel has no overlay file system"
    return ""


@contextmanager
def dockerd(session: Session, folder: Path) -> Iterator[Daemon]:
    """A daemon with its data below ``folder``, ready; stopped, and what it mounted unmounted, at the end."""
    environment, prefix = prefix_of(session, "docker")
    require(session, environment)
    folder.mkdir(parents=True, exist_ok=True)
    # The path of a socket has no more than 107 bytes, and containerd has one deep inside.
    with tempfile.TemporaryDirectory(prefix="dockerd-") as short:
        # Else it reads the machine's.
        Path(short, "none.json").write_text("{}", encoding="utf-8")
        host, log = f"unix://{short}/docker.sock", folder / "dockerd.log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [
                    prefix / "usr/sbin/dockerd", "--host", host, "--data-root", folder / "data",
                    "--exec-root", f"{short}/exec", "--pidfile", f"{short}/dockerd.pid", "--config-file", f"{short}/none.json",
                    "--bridge", "none", "--iptables=false", "--ip6tables=false", "--shutdown-timeout", "3",
                    "--exec-opt", "native.cgroupdriver=cgroupfs",
                ],
                # It finds containerd and runc there, and nothing of the machine's.
                env={"PATH": ":".join(str(prefix / name) for name in ("usr/bin", "usr/sbin", "sbin")), "HOME": short},
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                # Tests that are killed end it as well.
                preexec_fn=die_with_parent,  # noqa: PLW1509 - no threads of ours
            )  # fmt: skip
        try:
            wait(process, f"{short}/docker.sock", log)
            yield Daemon(host=host, client=prefix / "usr/bin/docker", log=log, pid=process.pid)
        finally:
            # It ends its containers. containerd and what watches these have our folder among their words.
            end(process, f"{short}/exec")
            for place in (short, os.path.realpath(folder)):
                unmount(place)


def wait(process: subprocess.Popen[bytes], path: str, log: Path) -> None:
    """Until a daemon that was started answers at its socket. RuntimeError where it does not."""
    until = time.monotonic() + _START_S
    while not _answers(path):
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"{log.stem} does not start:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.05)


def _answers(path: str) -> bool:
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(5)
    try:
        connection.sock.connect(path)
        connection.request("GET", "/_ping")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def end(process: subprocess.Popen[bytes], mark: str) -> None:
    """End a daemon, and every process that has ``mark`` among its words: what the daemon itself did not end."""
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if mark.encode() in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)


def unmount(folder: str) -> None:
    """Everything below a folder, the innermost first."""
    call = ctypes.CDLL(None, use_errno=True).umount2
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    places = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    for place in sorted((place for place in places if place.startswith(f"{folder}/")), key=len, reverse=True):
        call(os.fsencode(place), _DETACH)
