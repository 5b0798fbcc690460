"""A home of the tests' own, with the user's installed packages: what they run and what fails is kept apart from the user's.

Its action cache stays from one session of tests to the next, so that the suite smoke is executed once and again only where
something has changed. Tests of what is executed take a new cache.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mlir_matrix.base.files import locked
from mlir_matrix.base.paths import find_home
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.eviction import evict
from support.agreement import Came, run, write_broken
from support.contained import apart, served
from support.daemon import Daemon, dockerd, unsupported
from support.fake_index import FakeIndex, open_index
from support.link_kit import build_link_kit, home_with
from support.workspace import Report, Workspace, bazel_folder, end_bazel, new_home

_libc = ctypes.CDLL(None, use_errno=True)
#: Bytes that the lasting cache may hold: those of smoke a dozen times.
_MOST_KEPT = 250_000_000


@pytest.fixture(scope="session")
def workspace() -> Iterator[Workspace]:
    """The home that most tests share. It is not below /tmp, of which actions have one of their own."""
    with TemporaryDirectory(dir="/var/tmp", prefix="matrix-") as folder:
        made = Workspace(new_home(Path(folder) / "home"))
        lasting = find_home().cache / "tests" / "actions"
        lasting.mkdir(parents=True, exist_ok=True)
        made.actions.symlink_to(lasting, target_is_directory=True)
        evict(made.folders, max_bytes=_MOST_KEPT)
        yield made


@pytest.fixture(scope="session")
def smoke(workspace: Workspace) -> Report:
    """The suite smoke, run; afterwards everything in it is in the shared cache."""
    # One process executes it. The others wait and find what it has executed.
    with locked(find_home().cache / "tests" / "smoke.lock"):
        return workspace.run()


@pytest.fixture(scope="session")
def warm(workspace: Workspace, smoke: Report) -> Workspace:
    """The shared home once smoke has been run."""
    assert smoke.tests
    return workspace


@pytest.fixture(scope="session")
def link_kit(current: Session) -> Path:
    """An action cache that has what each kernel is linked with: to compile that takes as long as all else of a test."""
    return build_link_kit(current)


@pytest.fixture
def fresh(link_kit: Path, tmp_path: Path) -> Callable[[str], Workspace]:
    """Make homes whose action cache has what kernels are linked with, and nothing else: ``fresh("first")``."""

    def make(name: str) -> Workspace:
        return home_with(link_kit, tmp_path / name)

    return make


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog of programs that fail."""
    return write_broken(tmp_path_factory.mktemp("broken"))


@pytest.fixture(scope="session")
def local(warm: Workspace, broken: Path) -> Came:
    """What the local executor gives for what other executors run; most of it is known from smoke."""
    return run(warm.folders, broken)


@pytest.fixture
def copied(warm: Workspace, tmp_path: Path) -> Workspace:
    """The shared home with a copy of the catalog that a test may change."""
    return warm.with_copy(tmp_path / "copy")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[FakeIndex]:
    """Locked packages that are made up, and nothing fetched."""
    with open_index(tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def daemon(current: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A container daemon of the tests' own."""
    if why := unsupported():
        pytest.skip(f"no container daemon can run here: {why}")
    with dockerd(current, tmp_path_factory.mktemp("docker")) as running:
        yield running


@pytest.fixture(scope="session")
def containers(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A home with the daemon, which has the images that most tests need."""
    return served(tmp_path_factory.mktemp("containers"), daemon)


@pytest.fixture
def own(containers: Workspace, tmp_path: Path) -> Workspace:
    """A home with the daemon and an empty cache."""
    return apart(containers, tmp_path / "home")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB: the C library fits, a run does not."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if _libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=24m") != 0:
        pytest.skip(f"no small file system can be mounted: {os.strerror(ctypes.get_errno())}")
    yield folder
    _libc.umount2(os.fsencode(folder), 2)


@pytest.fixture(scope="session", autouse=True)
def _no_server_stays() -> Iterator[None]:
    """End the Bazel servers that this process started, which would wait for more."""
    yield
    end_bazel(bazel_folder())
