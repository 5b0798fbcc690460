"""A PostgreSQL of the tests' own: the component of the catalog, behind a socket in a folder."""

from __future__ import annotations

import ctypes
import os
import signal
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
from support.processes import Process, run_to_end

_NEWUSER = 0x10000000
_READY = "ready to accept connections"


@dataclass(frozen=True)
class Postgres:
    """A server with one user and no password."""

    process: Process
    #: The folder of its socket.
    socket: Path

    @property
    def where(self) -> str:
        """User, database and socket, as in a URL."""
        return f"tester@/postgres?host={self.socket}"

    def start(self) -> None:
        before = self._said()
        self.process.start()
        self.process.wait(lambda: self._said() > before)

    def _said(self) -> int:
        log = self.process.log
        return log.read_text(encoding="utf-8", errors="replace").count(_READY) if log.exists() else 0

    def kill(self) -> None:
        """End all of its processes as a machine vanishes."""
        assert self.process.process is not None
        pid = self.process.process.pid
        others = list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()))
        for each in (pid, *others):
            # One that waits for its end may see that of the others.
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self.process.process.wait()
        # Those without a parent are another one's to wait for; as long as they are there, no new server starts.
        end = time.monotonic() + 60
        while any(map(_lives, others)) and time.monotonic() < end:
            time.sleep(0.02)


def _lives(pid: int) -> bool:
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0] != "Z"
        )
    except (OSError, IndexError):
        return False


@contextmanager
def postgres(session: Session, folder: Path) -> Iterator[Postgres]:
    """Run a server whose files are in a folder."""
    environment, prefix = prefix_of(session, "postgresql")
    require(session, environment)
    programs, data = prefix / "usr/lib/postgresql/15/bin", folder / "database"
    folder.mkdir(parents=True, exist_ok=True)
    words = ["-U", "tester", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8"]
    run_to_end([programs / "initdb", "-D", data, *words], folder / "initdb.log", before=_as_nobody)
    # The path of a socket has no more than 107 bytes.
    with tempfile.TemporaryDirectory(prefix="postgres-") as short:
        settings = [
            "listen_addresses=", f"unix_socket_directories={short}", "fsync=off", "timezone=GMT",
            "log_timezone=GMT",
        ]  # fmt: skip
        words = [word for setting in settings for word in ("-c", setting)]
        process = Process([programs / "postgres", "-D", data, *words], folder / "postgres.log", before=_as_nobody)
        server = Postgres(process, Path(short))
        try:
            server.start()
            yield server
        finally:
            process.stop()


def _as_nobody() -> None:
    """PostgreSQL refuses root: in a namespace of its own the same user has another number, and its files stay its own."""
    die_with_parent()
    if os.geteuid() == 0:
        if ctypes.CDLL(None).unshare(_NEWUSER) != 0:
            os._exit(71)
        for name, text in (("setgroups", "deny"), ("uid_map", "1000 0 1"), ("gid_map", "1000 0 1")):
            Path(f"/proc/self/{name}").write_text(text, encoding="ascii")
