"""Images of environments, with a real daemon: the same lock gives the same ID, and what is in one runs there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.paths import find_home
from mlir_matrix.containers.images import chosen
from mlir_matrix.containers.layers import PACKAGES
from mlir_matrix.environments.installed.prefix import read_prefix
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.plan.session import open_session
from support.daemon import Daemon, dockerd, unsupported
from support.pages import blocks, perform
from support.workspace import REPOSITORY, Finished, Workspace, new_home

#: Small ones, of wheels alone.
NAMES = ("numpy", "filecheck")
LLVM = "codegen"
pytestmark = pytest.mark.skipif(bool(unsupported()), reason=unsupported())


@pytest.fixture(scope="module")
def session() -> Session:
    return open_session()


@pytest.fixture
def docker(daemon: Daemon) -> Daemon:
    """The daemon, by the name of its client."""
    return daemon


@pytest.fixture
def user(docker: Daemon, tmp_path: Path) -> Callable[..., Workspace]:
    """Make homes; ``measured=False``: of somebody whose layers nobody has measured yet."""

    def make(name: str, *, measured: bool = True) -> Workspace:
        made = Workspace(new_home(tmp_path / name), more={"DOCKER_HOST": docker.host})
        if not measured:
            (made.home / "layers").unlink()
        return made

    return make


def built(workspace: Workspace, *names: str) -> dict[str, str]:
    """Images by environment, once they are there."""
    done = workspace("container", "build", *names, "--quiet", "--format", "json")
    assert done.code == 0, done.stderr
    assert done.document["summary"]["images"] == len(done.document["images"])
    listed = workspace("container", "list", *names, "--format", "json").document["images"]
    assert {image["state"] for image in listed} == {"present"}
    return {image["environment"]: image["id"] for image in listed}


def verified(workspace: Workspace, *names: str, code: int) -> Finished:
    done = workspace("container", "verify", *names)
    assert done.code == code, done.stdout + done.stderr
    return done


def environment_of(session: Session, name: str) -> ResolvedEnvironment:
    (found,), _ = chosen(session, [name])
    return found


def test_the_same_lock_gives_the_same_image(user: Callable[..., Workspace], docker: Daemon) -> None:
    """Made of packages that somebody else installed, under another umask, for a daemon that has none of it."""
    first = built(user("first", measured=False), *NAMES)
    docker.docker("image", "rm", "--force", *first.values())
    second = user("second", measured=False)
    for name, target in (("packages", None), ("artifacts", find_home().artifacts)):
        (second.home / name).unlink(missing_ok=True)
        if target:
            target.mkdir(exist_ok=True)
            (second.home / name).symlink_to(target)
    before = os.umask(0o077)
    try:
        assert built(second, *NAMES) == first
    finally:
        os.umask(before)
    assert (second.home / "packages").is_dir()
    for identifier in first.values():
        (said,) = json.loads(docker.docker("image", "inspect", identifier))
        assert said["Id"] == identifier


def test_building_again_changes_nothing(user: Callable[..., Workspace]) -> None:
    workspace = user("home")
    found = built(workspace, *NAMES)
    done = workspace("container", "build", *NAMES)
    assert [line.split()[-1] for line in done.stdout.splitlines()[1:]] == ["present", "present"]
    assert "building" not in done.stderr
    assert built(workspace, *NAMES) == found


def run(docker: Daemon, image: str, *words: str) -> str:
    """As an executor runs it: not root, nothing to write to, no network."""
    locked = ("--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--tmpfs=/tmp")
    return docker.docker("run", "--rm", *locked, image, *words)


@pytest.mark.parametrize(("name", "module"), [("numpy", "numpy"), ("mlir", "torch_mlir.ir")])
def test_packages_are_imported_inside(
    user: Callable[..., Workspace], docker: Daemon, session: Session, name: str, module: str
) -> None:
    image = built(user("home"), name)[name]
    environment = environment_of(session, name)
    python = environment.interpreter.command(session.home.packages, at=Path(PACKAGES))
    code = (
        f"import sys; sys.path += {environment.sites(Path(PACKAGES))}; import os, {module} as it; "
        "print(os.getuid(), it.__file__, os.environ['TZ'], os.environ['PATH'] == '', os.getcwd())"
    )
    said = run(docker, image, *python, "-P", "-s", "-S", "-c", code).split()
    assert said[0] == "10001"
    assert said[1].startswith(str(PACKAGES))
    assert said[2:] == ["UTC", "True", "/work"]
    # What looks for the system's loader and libraries finds those, too.
    plain = f"{PACKAGES}/{environment.units[0].folder_for('cp311')}/usr/bin/python3.11"
    assert run(docker, image, plain, "-c", "import ctypes, ssl; print('well')") == "well\n"


def test_a_pinned_llvm_runs_inside(user: Callable[..., Workspace], docker: Daemon, session: Session) -> None:
    image = built(user("home"), LLVM)[LLVM]
    environment = environment_of(session, LLVM)
    (root,) = environment.roots(session.home.packages)
    llc = read_prefix(Path(root)).argv(f"{PACKAGES}/{Path(root).name}", "llc")
    assert "LLVM version 22.1.8" in run(docker, image, *llc, "--version")


def test_a_removed_image_is_absent(user: Callable[..., Workspace], docker: Daemon) -> None:
    workspace = user("home")
    built(workspace, "numpy")
    assert verified(workspace, "numpy", code=0).stdout == "1 image compared; 0 differ from their lock files\n"
    document = workspace("container", "verify", "numpy", "--format", "json").document
    assert document["summary"] == {"images": 1, "different": 0}
    docker.docker("image", "rm", "--force", tag_of(workspace, "numpy"))
    done = verified(workspace, "numpy", code=3)
    assert done.stdout.splitlines()[0] == f"{tag_of(workspace, 'numpy')}: is absent"
    assert "matrix container build builds them again" in done.stderr
    assert [row["state"] for row in listed(workspace, "numpy")] == ["absent"]


def listed(workspace: Workspace, *names: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = workspace("container", "list", *names, "--format", "json").document["images"]
    return rows


def tag_of(workspace: Workspace, name: str) -> str:
    return next(row["tag"] for row in listed(workspace, name) if row["environment"] == name and row["digest"])


def test_a_tag_that_is_another_image(user: Callable[..., Workspace], docker: Daemon) -> None:
    workspace = user("home")
    found = built(workspace, *NAMES)
    docker.docker("tag", tag_of(workspace, "filecheck"), tag_of(workspace, "numpy"))
    lines = verified(workspace, *NAMES, code=3).stdout.splitlines()
    assert lines[0] == f"{tag_of(workspace, 'numpy')}: differs from its lock files"
    assert "  its label mlir-matrix.environment is filecheck, not numpy" in lines
    assert any("is not that of numpy" in line for line in lines)
    assert lines[-1] == "2 images compared; 1 differ from their lock files"
    assert built(workspace, *NAMES) == found


def test_an_image_that_somebody_changed(user: Callable[..., Workspace], docker: Daemon) -> None:
    """Layer and file are named."""
    workspace = user("home")
    found = built(workspace, "numpy")
    tag = tag_of(workspace, "numpy")
    change = "for file in /matrix/packages/numpy-*/numpy/version.py; do echo changed > $file; done"
    docker.docker("run", "--name", "changed", "--network=none", "--user=0", tag, "/bin/sh", "-c", change)
    docker.docker("commit", "changed", tag)
    docker.docker("rm", "changed")
    said = verified(workspace, "numpy", code=3).stdout
    assert "it has an extra layer, sha256:" in said
    assert "/numpy/version.py was added or changed" in said
    assert {row["state"] for row in listed(workspace, "numpy")} == {"stale"}
    done = workspace("container", "build", "numpy", "--quiet")
    assert done.stdout.splitlines()[1].endswith("made")
    assert found["numpy"] in {row["id"] for row in listed(workspace, "numpy") if row["state"] == "present"}


def test_a_damaged_package_is_not_put_in_one(user: Callable[..., Workspace], docker: Daemon, tmp_path: Path) -> None:
    workspace = user("home")
    built(workspace, "filecheck")
    docker.docker("image", "rm", "--force", tag_of(workspace, "filecheck"))
    real = (workspace.home / "packages").resolve()
    (workspace.home / "packages").unlink()
    (workspace.home / "packages").mkdir()
    for folder in (*real.glob("filecheck-*"), *real.glob("cpython-*")):
        subprocess.run(["cp", "-a", folder, workspace.home / "packages"], check=True)
    (victim,) = (workspace.home / "packages").glob("filecheck-*/filecheck/finput.py")
    victim.write_text("changed\n")
    done = workspace("container", "build", "filecheck")
    assert done.code == 3
    assert "has changed since its layer was measured; run: matrix toolchain verify" in done.stderr
    assert [row["state"] for row in listed(workspace, "filecheck")] == ["absent"]
    (workspace.home / "layers").rename(tmp_path / "aside")
    done = workspace("container", "build", "filecheck")
    assert done.code == 3
    assert "is damaged (filecheck/finput.py); remove it by: matrix toolchain verify" in done.stderr


def test_a_full_disk_is_one_sentence(session: Session, tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "none", place], check=True)
    try:
        with dockerd(session, place) as daemon:
            workspace = Workspace(new_home(tmp_path / "home"), more={"DOCKER_HOST": daemon.host})
            done = workspace("container", "build", "numpy", "--quiet")
            assert done.code == 3
            assert done.stderr == (
                "matrix: the container daemon's disk is full, loading images; for the largest objects, run: docker system df\n"
            )
            assert done.stdout == ""
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("verb", ["build", "list", "verify"])
def test_no_daemon_is_one_sentence(tmp_path: Path, verb: str) -> None:
    workspace = Workspace(new_home(tmp_path / "home"), more={"DOCKER_HOST": f"unix://{tmp_path}/none"})
    done = workspace("container", verb, "numpy")
    assert done.code == 3
    assert done.stderr.startswith(f"matrix: no container daemon answers at unix://{tmp_path}/none; start one")
    assert len(done.stderr.splitlines()) == 1


def test_slips(user: Callable[..., Workspace]) -> None:
    workspace = user("home")
    assert workspace("container", "build", "numpi").stderr == (
        "matrix: there is no environment or suite 'numpi'; did you mean 'numpy'?\n"
    )
    done = workspace("container", "build", "numpy", "--push")
    assert done.code == 2
    assert done.stderr.startswith("matrix: --push: no registry is set; add «registry: HOST:PORT/FOLDER»")
    done = workspace("container", "build", "numpy", "mlir-upstream", "--quiet")
    assert done.code == 3
    assert "numpy" in done.stdout
    assert "environment mlir-upstream" in done.stderr


def test_the_page_shows_what_happens(docker: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of containers.md the blocks that need a daemon."""
    (tmp_path / "tools").symlink_to(REPOSITORY / "tools")
    monkeypatch.setenv("DOCKER_HOST", docker.host)
    shown = [block for block in blocks(REPOSITORY / "docs" / "containers.md") if block.words == ("console", "daemon")]
    assert shown
    home = new_home(tmp_path / "home")
    # Those that the page makes. Others are for other tests.
    for name in NAMES:
        label = f"label=mlir-matrix.environment={name}"
        for image in docker.docker("image", "ls", "--quiet", "--filter", label).split():
            docker.docker("image", "rm", "--force", image)
    for block in shown:
        perform(block, tmp_path, home, f"containers.md:{block.line}")
