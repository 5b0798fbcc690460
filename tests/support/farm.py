"""Remote execution on loopback with real engines: BuildGrid, its PostgreSQL, and workers of BuildBox in pools.

Bazel talks to BuildGrid, which has storage, action cache and queue, and gives each action to a worker whose OSFamily, ISA
and pool are those that the action asks for. A worker keeps files of its own behind a buildbox-casd, and runs actions by
bubblewrap: in a root that is the action's inputs, without the machine's files and
without a network. Everything is below one folder, and ends with the test.

An action for a pool that has no worker waits for one: BuildGrid says so to nobody.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from mlir_matrix.actions.runtime.isolation import die_with_parent
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.errors import InfrastructureError
from mlir_matrix.session import Session
from mlir_matrix.toolchains.names import prefix_of, require

POOLS = ("one", "two")
_PREFIXES = ("postgresql", "buildbox")
_NEWUSER = 0x10000000
_START_S, _STOP_S = 180, 10
_CLEAN = {"LC_ALL": "C.UTF-8", "TZ": "GMT", "PATH": "/nonexistent"}
_BUILDGRID = """\
server:
  - !channel
    address: {address}
    insecure-mode: true
monitoring:
  enabled: false
connections:
  - !sql-connection &sql
    connection-string: {database}
    pool-size: 10
storages:
  - !disk-storage &files
    path: {files}
caches:
  - !lru-action-cache &results
    storage: *files
    max-cached-refs: 100000
schedulers:
  - !sql-scheduler &queue
    sql: *sql
    storage: *files
    action-cache: *results
    # A worker that was killed is given up after this time, and another one has its actions.
    bot-session-keepalive-timeout: 10
    session-expiry-timer-interval: 1
    property-set: !dynamic-property-set
      match-property-keys: [OSFamily, ISA, pool]
    assigners:
      - !priority-age-assigner
        count: 1
        interval: 0.05
instances:
  - name: ""
    services:
      - !action-cache
        cache: *results
      - !execution
        scheduler: *queue
      - !cas
        storage: *files
      - !bytestream
        storage: *files
# A worker that is refused for too many calls at once ends, and clients send thousands of files.
thread-pool-size: 1000
"""


@dataclass
class Process:
    """One that runs, or does not."""

    command: Sequence[str | Path]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Called in the child.
    before: Callable[[], None] = die_with_parent
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command, env={**_CLEAN, **self.environment}, cwd=self.log.parent, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, preexec_fn=self.before,  # noqa: PLW1509 - no threads of ours
            )  # fmt: skip

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """End it, at once where asking does not help."""
        if self.process is not None and self.runs:
            self.process.terminate()
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def wait(self, ready: Callable[[], bool]) -> None:
        """Wait until it can be used. Raises RuntimeError with what it said."""
        end = time.monotonic() + _START_S
        while not ready():
            if not self.runs or time.monotonic() > end:
                said = self.log.read_text(encoding="utf-8", errors="replace")[-3000:]
                raise RuntimeError(f"{os.path.basename(self.command[0])} does not start:\n{said}")
            time.sleep(0.05)


@dataclass(frozen=True, kw_only=True)
class Worker:
    """What executes the actions of a pool: a worker, and the store of files that it has beside itself."""

    pool: str
    store: Process
    worker: Process
    #: The store's files.
    cache: Path
    _socket: Path

    @property
    def log(self) -> Path:
        """What the worker says: each action that it is given."""
        return self.worker.log

    def start(self) -> None:
        self.store.start()
        self.store.wait(self._socket.exists)
        self.worker.start()

    def kill(self) -> None:
        """As a machine vanishes: nobody is told."""
        for each in (self.worker, self.store):
            if each.process is not None:
                each.process.kill()
                each.process.wait()
        self._socket.unlink(missing_ok=True)

    def stop(self) -> None:
        """As a machine is shut down: the service is told."""
        self.worker.stop()
        self.store.stop()
        self._socket.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True)
class Farm:
    """A service that executes."""

    #: As ``--remote_executor`` has it.
    url: str
    #: By pool.
    workers: Mapping[str, Worker]
    logs: Path


def unsupported() -> str:
    """Why no farm can run on this machine; empty where one can."""
    code = f"import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare({_NEWUSER | 0x20000 | 0x20000000}) != 0)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=False)
    return "this kernel or container allows no user namespaces" if done.returncode else ""


@contextmanager
def farm(session: Session, folder: Path, *, pools: Sequence[str] = POOLS) -> Iterator[Farm]:
    """A farm with a worker in each of some pools; actions see nothing of the machine."""
    roots = {}
    for name in _PREFIXES:
        environment, root = prefix_of(session, name)
        require(session, environment)
        roots[name] = root
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        # The path of a socket has no more than 107 bytes.
        short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="farm-")))
        database = _start_database(roots["postgresql"], folder, short, logs, stack)
        address = _start_buildgrid(session, folder, database, logs, stack)
        workers = {}
        for pool in pools:
            workers[pool] = _worker(roots["buildbox"], pool, address, folder, short, logs)
            stack.callback(workers[pool].stop)
            workers[pool].start()
        yield Farm(url=f"grpc://{address}", workers=workers, logs=logs)


def _start_database(prefix: Path, folder: Path, short: Path, logs: Path, stack: ExitStack) -> str:
    programs, data = prefix / "usr/lib/postgresql/15/bin", folder / "database"
    words = ["-U", "farm", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8"]
    _do([programs / "initdb", "-D", data, *words], logs / "initdb.log", before=_as_nobody)
    settings = [
        "listen_addresses=",
        f"unix_socket_directories={short}",
        "fsync=off",
        "timezone=GMT",
        "log_timezone=GMT",
    ]
    words = [word for setting in settings for word in ("-c", setting)]
    server = Process([programs / "postgres", "-D", data, *words], logs / "postgres.log", before=_as_nobody)
    stack.callback(server.stop)
    server.start()
    server.wait(lambda: "ready to accept connections" in server.log.read_text(encoding="utf-8", errors="replace"))
    return f"postgresql+psycopg2://farm@/postgres?host={short}"


def _do(
    command: Sequence[str | Path],
    log: Path,
    environment: Mapping[str, str] = MappingProxyType({}),
    before: Callable[[], None] = die_with_parent,
) -> None:
    """Run something to its end."""
    made = Process(command, log, environment, before)
    made.start()
    assert made.process is not None
    if made.process.wait(_START_S) != 0:
        raise RuntimeError(f"{log.stem} fails:\n{log.read_text(encoding='utf-8', errors='replace')[-3000:]}")


def _as_nobody() -> None:
    """PostgreSQL refuses root: in a namespace of its own the same user has another number, and its files stay its own."""
    die_with_parent()
    if os.geteuid() == 0:
        if ctypes.CDLL(None).unshare(_NEWUSER) != 0:
            os._exit(71)
        for name, text in (("setgroups", "deny"), ("uid_map", "1000 0 1"), ("gid_map", "1000 0 1")):
            Path(f"/proc/self/{name}").write_text(text, encoding="ascii")


def _start_buildgrid(session: Session, folder: Path, database: str, logs: Path, stack: ExitStack) -> str:
    environment = session.environment("buildgrid")
    if not isinstance(environment, ResolvedEnvironment):
        raise InfrastructureError(environment.reason)
    require(session, environment)
    packages = session.home.packages
    start = "import sys; sys.argv[0] = 'bgd'; from buildgrid.server.app import cli; cli()"
    call = [*environment.interpreter.command(packages), "-P", "-s", "-c", start]
    paths = {
        "PYTHONPATH": ":".join(environment.sites(packages)),
        "PYTHONPYCACHEPREFIX": str(session.home.bytecode),
        "HOME": str(folder),
    }
    _do([*call, "migrate", "apply", database], logs / "migration.log", paths)
    address = f"127.0.0.1:{_free_port()}"
    configuration = folder / "buildgrid.yaml"
    configuration.write_text(
        _BUILDGRID.format(address=address, database=database, files=folder / "files"), encoding="utf-8"
    )
    server = Process([*call, "server", "start", "-v", str(configuration)], logs / "buildgrid.log", paths)
    stack.callback(server.stop)
    server.start()
    server.wait(lambda: _listens(address))
    return address


def _worker(prefix: Path, pool: str, address: str, folder: Path, short: Path, logs: Path) -> Worker:
    programs, place, cache = prefix / "usr/bin", short / f"{pool}.sock", folder / f"cache-{pool}"
    # It looks for bwrap there.
    path = {"PATH": str(programs), "TMPDIR": str(short), "HOME": str(folder)}
    store = [programs / "buildbox-casd", f"--cas-remote=http://{address}", f"--bind=unix:{place}", cache]
    worker = [
        programs / "buildbox-worker", f"--bots-remote=http://{address}", f"--cas-remote=unix:{place}",
        f"--buildbox-run={programs / 'buildbox-run-bubblewrap'}",
        *(f"--platform={name}={value}" for name, value in (("OSFamily", "linux"), ("ISA", "x86-64"), ("pool", pool))),
        # Files as they are read, where the kernel allows that; else copies of all.
        "--runner-arg=--staging-mode=default", pool,
    ]  # fmt: skip
    return Worker(
        pool=pool, store=Process(store, logs / f"store-{pool}.log", path),
        worker=Process(worker, logs / f"worker-{pool}.log", path), cache=cache, _socket=place,
    )  # fmt: skip


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _listens(address: str) -> bool:
    name, _, port = address.rpartition(":")
    try:
        socket.create_connection((name, int(port)), timeout=1).close()
    except OSError:
        return False
    return True
