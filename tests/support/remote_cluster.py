"""Remote execution on loopback with real engines: BuildGrid, its PostgreSQL, and workers of BuildBox in pools.

Bazel talks to BuildGrid, which has storage, action cache and queue, and gives each action to a worker whose OSFamily, ISA
and pool are those that the action asks for. A worker keeps files of its own behind a buildbox-casd, and runs actions by
bubblewrap: in a root that is the action's inputs, without the machine's files and
without a network. Everything is below one folder, and ends with the test.

An action for a pool that has no worker waits for one: BuildGrid says so to nobody.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.environments.installer import require
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.selection import prefix_of
from mlir_matrix.environments.session import Session
from support.loopback import choose_port
from support.postgres import postgres
from support.processes import Process, run_to_end

POOLS = ("one", "two")
_PREFIXES = ("buildbox",)
_NEWUSER = 0x10000000
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
            each.kill()
        self._socket.unlink(missing_ok=True)

    def stop(self) -> None:
        """As a machine is shut down: the service is told."""
        self.worker.stop()
        self.store.stop()
        self._socket.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True)
class RemoteCluster:
    """A service that executes."""

    #: As ``--remote_executor`` has it.
    url: str
    #: By pool.
    workers: Mapping[str, Worker]
    logs: Path


def unsupported() -> str:
    """Why no cluster can run on this machine; empty where one can."""
    code = f"import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare({_NEWUSER | 0x20000 | 0x20000000}) != 0)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=False)
    return "this kernel or container allows no user namespaces" if done.returncode else ""


@contextmanager
def cluster(session: Session, folder: Path, *, pools: Sequence[str] = POOLS) -> Iterator[RemoteCluster]:
    """A cluster with a worker in each of some pools; actions see nothing of the machine."""
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
        server = stack.enter_context(postgres(session, folder / "postgres"))
        database = f"postgresql+psycopg2://{server.where}"
        address = _start_buildgrid(session, folder, database, logs, stack)
        workers = {}
        for pool in pools:
            workers[pool] = _worker(roots["buildbox"], pool, address, folder, short, logs)
            stack.callback(workers[pool].stop)
            workers[pool].start()
        yield RemoteCluster(url=f"grpc://{address}", workers=workers, logs=logs)


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
    run_to_end([*call, "migrate", "apply", database], logs / "migration.log", paths)
    address = f"127.0.0.1:{choose_port()}"
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


def _listens(address: str) -> bool:
    name, _, port = address.rpartition(":")
    try:
        socket.create_connection((name, int(port)), timeout=1).close()
    except OSError:
        return False
    return True
