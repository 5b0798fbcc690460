"""``--executor docker`` and ``matrix container`` with Podman's service in Docker's place: all is as with Docker."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.environments.session import Session
from mlir_matrix.plan.request import ExecutorOptions
from mlir_matrix.plan.session import open_session
from support.agreement import Came, check_agreement
from support.agreement import run as run_by
from support.contained import Aftermath, apart, attempt, check_ended, left, run, served
from support.daemon import Daemon, unsupported
from support.podman import podmand
from support.workspace import Workspace, new_home

pytestmark = pytest.mark.skipif(bool(unsupported()), reason=unsupported())
#: Of what programs try one of each kind: what they take, where they reach, what they leave.
CASES = [
    "memory_of_many", "forks_without_end", "bomb", "socket", "is_nobody", "reads_home", "writes_anywhere",
    "writes_its_inputs", "kills_everyone", "segfault", "daemon", "good",
]  # fmt: skip
OLDER = "podman=4.3.1"


@pytest.fixture(scope="module")
def podman(current: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Podman's service."""
    with podmand(current, tmp_path_factory.mktemp("podman")) as running:
        yield running


@pytest.fixture(scope="module")
def daemon(podman: Daemon) -> Daemon:
    """Podman's service, where other tests have Docker's daemon."""
    return podman


@pytest.fixture(scope="module")
def containers(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A home with it."""
    return served(tmp_path_factory.mktemp("containers"), daemon)


def test_executors_agree(
    containers: Workspace, local: Came, broken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, daemon: Daemon
) -> None:
    monkeypatch.setenv("DOCKER_HOST", daemon.host)
    home = apart(containers, tmp_path / "home").folders
    found = run_by(
        home, broken, ExecutorOptions(executor="docker"), ["mlir/linalg-vectorized/x86_64/mlp"], ["m_divides"]
    )
    check_agreement(found, local)
    assert found.executed > 10
    assert left(daemon) == []


@pytest.fixture(scope="module")
def aftermath(containers: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    """Of one run with all of them at once."""
    folder = tmp_path_factory.mktemp("hostile")
    return attempt(apart(containers, folder / "home"), folder, CASES)


@pytest.mark.parametrize("name", CASES)
def test_each_gets_its_own_outcome(aftermath: Aftermath, name: str) -> None:
    aftermath.check(name)


def test_nothing_is_left(aftermath: Aftermath, daemon: Daemon) -> None:
    aftermath.check_nothing_left(daemon)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ended(how: signal.Signals, own: Workspace, daemon: Daemon, tmp_path: Path) -> None:
    """At once, with what it runs. What a killed run could not remove the next one does."""
    check_ended(how, own, tmp_path / "catalog", daemon)


def test_images(daemon: Daemon, tmp_path: Path) -> None:
    """They are those that Docker has, by the same IDs; one that is gone is told."""
    workspace = Workspace(new_home(tmp_path / "home"), more={"DOCKER_HOST": daemon.host})
    assert workspace("container", "build", "filecheck", "--quiet").code == 0
    (image,) = workspace("container", "list", "filecheck", "--format", "json").document["images"]
    assert image["state"] == "present"
    assert workspace("container", "verify", "filecheck").stdout == "1 image compared; 0 differ from their lock files\n"
    daemon.docker("rmi", "--force", image["tag"])
    done = workspace("container", "verify", "filecheck")
    assert done.code == 3
    assert done.stdout.splitlines()[0] == f"{image['tag']}: is absent"


def test_an_older_one(containers: Workspace, tmp_path: Path) -> None:
    own = apart(containers, tmp_path / "home")
    with podmand(open_session(pins=[OLDER]), tmp_path / "podman") as daemon:
        # Of few environments: each has an image that is loaded.
        report = run(replace(own, more={"DOCKER_HOST": daemon.host}), "mlir/linalg-fuse/ir/*")
        assert report.executed > 1
        assert left(daemon) == []
    assert not Path(f"/proc/{daemon.pid}").exists()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
