"""Slots of containers: which environments may have a job, and what a container's folder is like afterwards."""

from __future__ import annotations

import fcntl
import os
import selectors
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.models.toolchains import Containers
from mlir_matrix.containers import action_folder, privileges
from mlir_matrix.containers import pool as module
from mlir_matrix.containers.pool import ContainerPool
from mlir_matrix.environments.interpreter import own
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.folders import Prepared, make_folder
from mlir_matrix.execute.job import Job, Task
from mlir_matrix.execute.worker_pool import PoolContext
from mlir_matrix.execute.worker_process import Preload
from mlir_matrix.plan.graph import PlannedAction
from mlir_matrix.plan.request import Limits

PYTHON = ResolvedEnvironment(name="python", interpreter=own(), packages=())
HERE, OTHER = PYTHON.digest, "other"


class Daemon:
    """A daemon whose containers are sockets; ``ends`` are the other ends."""

    def __init__(self) -> None:
        self.client = self.api = self
        self.ends: list[socket.socket] = []
        self.removed: list[str] = []

    def info(self) -> dict[str, Any]:
        return {}

    def containers(self, **_: Any) -> list[Any]:
        return []

    def remove_container(self, container: str, **_: Any) -> None:
        self.removed.append(container)

    def inspect_container(self, _: str) -> dict[str, Any]:
        return {"State": {"OOMKilled": False}}

    def plainly(self, _: str) -> Any:
        return nullcontext()

    def close(self) -> None:
        for end in self.ends:
            end.close()


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Daemon:
    made = Daemon()

    def start(*_: Any) -> tuple[str, socket.socket]:
        ours, theirs = socket.socketpair()
        made.ends.append(theirs)
        return str(len(made.ends)), ours

    monkeypatch.setattr(module, "connect", lambda: made)
    monkeypatch.setattr(module, "start", start)
    monkeypatch.setattr(privileges, "command", lambda *_: ["worker"])
    monkeypatch.setattr(module.ImageSupply, "image", lambda *_: "1")
    return made


@pytest.fixture
def pool(daemon: Daemon, tmp_path: Path) -> Iterator[ContainerPool]:
    (tmp_path / "scratch").mkdir()
    with selectors.DefaultSelector() as selector:
        context = PoolContext(
            selector=selector,
            wake=lambda: None,
            preloads={HERE: Preload({"run"}, set()), OTHER: Preload({"run"}, set())},
            home=Home(cache=tmp_path, state=tmp_path, actions=tmp_path),
            scratch=tmp_path / "scratch",
            store=ActionCache(tmp_path),
            limits=Limits(jobs=2),
        )
        made = ContainerPool(context, Containers())
        yield made
        made.supply.close()
        made.close()
    assert len(daemon.removed) >= len(daemon.ends)


def job(name: str) -> Job:
    action = PlannedAction(
        id=name, tool="run", stage="run", environment="python", params={}, inputs={}, outputs={"x": "x"}, sources=(),
        params_digest="",
    )  # fmt: skip
    prepared = Prepared(name, action, ())
    return Job([action], PYTHON, Task(action, prepared, PYTHON))


def send(pool: ContainerPool, job: Job) -> Job:
    assert job.task is not None
    pool.send(job, job.task)
    return job


def answer(pool: ContainerPool, daemon: Daemon, at: int = -1) -> Job:
    """Have a worker answer its job."""
    container = pool._containers[HERE][at]
    (number,) = container.pending
    text = b'{"requestId": %d, "exitCode": 0}\n' % number
    daemon.ends[int(container.identifier) - 1].sendall(b"\1\0\0\0" + len(text).to_bytes(4, "big") + text)
    (((done, _),), alive) = container.receive()
    assert alive
    assert isinstance(done, Job)
    return done


def test_one_at_a_time(pool: ContainerPool, daemon: Daemon) -> None:
    """Another container of the same environment only where nothing else waits, and where it pays."""
    assert pool.open_environments({HERE: 500, OTHER: 1}) == [HERE, OTHER]
    send(pool, job("a"))
    assert pool.open_environments({HERE: 500, OTHER: 1}) == [OTHER]
    assert pool.open_environments({HERE: 500}) == [], "what another would cost is not known yet"
    pool.release(answer(pool, daemon))
    assert pool.open_environments({HERE: 500, OTHER: 1}) == [HERE, OTHER]
    send(pool, job("b"))
    assert pool.open_environments({HERE: 500}) == [HERE]
    pool._paces[HERE].start_s = 1000.0
    assert pool.open_environments({HERE: 500}) == []
    assert len(daemon.ends) == 1, "the same container again"


def test_the_folder_is_as_new(pool: ContainerPool, daemon: Daemon) -> None:
    """A container whose folder is not ends, and the next action has another."""
    send(pool, job("a"))
    folder = Path(pool._containers[HERE][0].folder)
    assert os.listdir(folder / "in") == []
    (folder / "link").symlink_to("/etc")
    pool.release(answer(pool, daemon))
    assert sorted(os.listdir(folder)) == ["in", "out"]
    send(pool, job("b"))
    (container,) = pool._containers[HERE]
    assert container.folder == str(folder)
    os.setxattr(folder / "out", "user.note", b"x")
    pool.release(answer(pool, daemon))
    assert (pool._containers[HERE], daemon.removed) == ([], ["1"])
    assert pool.remove_worker(container) == ("", []), "its end is heard of once more"
    assert not folder.exists()


def test_one_that_ends(pool: ContainerPool, daemon: Daemon) -> None:
    sent = send(pool, job("a"))
    (container,) = pool._containers[HERE]
    daemon.ends[0].sendall(b"\2\0\0\0\0\0\0\x05a\nend")
    assert container.receive() == ([], True)
    daemon.ends[0].close()
    assert container.receive() == ([], False)
    words, left = pool.remove_worker(container)
    assert (words, [(each.job, each.began) for each in left]) == ("end", [(sent, False)])
    assert daemon.removed == ["1"]
    assert pool._containers[HERE] == []
    assert Path(container.folder).exists()
    pool.release(sent)
    assert not Path(container.folder).exists()


#: A default ACL: files that are made below such a folder have the mode 0000.
NOBODY_READS = struct.pack("<I" + "HHI" * 3, 2, 1, 0, 0xFFFFFFFF, 4, 0, 0xFFFFFFFF, 32, 0, 0xFFFFFFFF)
_GET_FLAGS, _SET_FLAGS, NO_DUMP = 0x80086601, 0x40086602, 0x40
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def set_flags(path: Path, flags: int) -> None:
    """Set an inode flag that needs no privilege."""
    descriptor = os.open(path, os.O_RDONLY)
    (before,) = struct.unpack("l", fcntl.ioctl(descriptor, _GET_FLAGS, bytes(8)))
    fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("l", before | flags))
    os.close(descriptor)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(make_folder(tmp_path))


def test_action_folder_is_emptied(folder: Path) -> None:
    new = action_folder.attributes_of(str(folder))
    (folder / "in" / "x").write_text("x")
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "out" / "pipe")
    assert action_folder.empty(str(folder), new)
    assert sorted(path.name for path in folder.rglob("*")) == ["in", "out"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "more").mkdir(),
        lambda folder: (folder / "in" / "more").mkdir(),
        lambda folder: folder.chmod(0o700),
        lambda folder: (folder / "out").chmod(0o500),
        lambda folder: (folder / "out").rmdir(),
        lambda folder: ((folder / "out").rmdir(), (folder / "out").symlink_to("/tmp")),
        lambda folder: ((folder / "in").rmdir(), (folder / "in").mkdir(0o700)),
        lambda folder: os.setxattr(folder, "system.posix_acl_default", NOBODY_READS),
        lambda folder: os.setxattr(folder / "out", "system.posix_acl_default", NOBODY_READS),
        lambda folder: os.setxattr(folder / "in", "user.note", b"x"),
        lambda folder: set_flags(folder / "out", NO_DUMP),
        pytest.param(lambda folder: os.chown(folder / "out", 1, 1), marks=ROOT),
    ],
)
def test_action_folder_with_other_attributes_is_not_reused(folder: Path, spoil: Callable[[Path], object]) -> None:
    new = action_folder.attributes_of(str(folder))
    spoil(folder)
    assert not action_folder.empty(str(folder), new)
