"""A PostgreSQL of the tests' own: the component of the catalog, behind a socket in a folder."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.actions.runtime.isolation import die_with_parent
from mlir_matrix.session import Session
from mlir_matrix.toolchains.names import prefix_of, require
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
        """End it and all of its processes as a machine vanishes."""
        self.process.kill_group()


@contextmanager
def postgres(session: Session, folder: Path, *, safe: bool = False) -> Iterator[Postgres]:
    """Run a server whose files are in a folder; ``safe``: what it has committed is there after a kill."""
    environment, prefix = prefix_of(session, "postgresql")
    require(session, environment)
    programs, data = prefix / "usr/lib/postgresql/15/bin", folder / "database"
    folder.mkdir(parents=True, exist_ok=True)
    words = ["-U", "tester", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8"]
    run_to_end([programs / "initdb", "-D", data, *words], folder / "initdb.log", before=_as_nobody)
    # The path of a socket has no more than 107 bytes.
    with tempfile.TemporaryDirectory(prefix="postgres-") as short:
        settings = [
            "listen_addresses=", f"unix_socket_directories={short}", f"fsync={'on' if safe else 'off'}", "timezone=GMT",
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
