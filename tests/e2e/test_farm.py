"""Bazel executes on the farm: each action by a worker of the pool that it asks for, in a sandbox without machine or network."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm import Farm, farm, unsupported
from mlir_matrix.bazel.locate import locate
from mlir_matrix.session import Session

_LOOK = "ls / > $@; ls /etc >> $@ 2>&1 || true; cat /proc/net/dev >> $@"
BUILD = "".join(
    f'genrule(name = "{name}", outs = ["{name}.txt"], cmd = "echo {name} > /dev/null; {_LOOK}", '
    f'exec_properties = {{"OSFamily": "linux", "ISA": "x86-64", "pool": "{name.rstrip("0123456789")}"}})\n'
    for name in ("one", "two", "two2")
)


class Remote:
    """A workspace, and Bazel for it."""

    def __init__(self, session: Session, folder: Path, url: str) -> None:
        self.folder = folder / "workspace"
        self.folder.mkdir()
        (self.folder / "MODULE.bazel").write_text('module(name = "m")\n')
        (self.folder / "BUILD.bazel").write_text(BUILD)
        self._start = [*locate(session).command, "--nohome_rc", f"--output_user_root={folder / 'root'}"]
        self._options = [
            f"--remote_executor={url}",
            "--spawn_strategy=remote",
            "--noenable_workspace",
            "--lockfile_mode=off",
        ]

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._start, *words], cwd=self.folder, text=True, stderr=subprocess.PIPE, check=False, timeout=100
        )

    def build(self, target: str) -> str:
        done = self.call("build", *self._options, f"//:{target}")
        assert done.returncode == 0, done.stderr
        return (self.folder / f"bazel-bin/{target}.txt").read_text()


@pytest.fixture(scope="module")
def running(current: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    if reason := unsupported():
        pytest.skip(reason)
    with farm(current, tmp_path_factory.mktemp("farm"), host=("/usr", "/bin", "/lib", "/lib64")) as made:
        yield made


@pytest.fixture
def remote(current: Session, running: Farm, tmp_path: Path) -> Iterator[Remote]:
    made = Remote(current, tmp_path, running.url)
    yield made
    made.call("shutdown")


def test_pools(running: Farm, remote: Remote) -> None:
    """Who has nothing to do does nothing; what is gone comes again; nothing of the machine is seen."""
    one, two = running.workers["one"], running.workers["two"]

    def given() -> tuple[int, int]:
        counts = [each.log.read_text().count("Runner exited") for each in (one, two)]
        return counts[0], counts[1]

    seen = remote.build("one")
    assert given() == (1, 0)
    assert {"bazel-out", "bin", "usr"} <= set(seen.split())
    assert not {"etc", "home", "root", "eth0:"} & set(seen.split())
    assert "cannot access '/etc'" in seen
    remote.build("two")
    assert given() == (1, 1)
    one.kill()
    assert not one.worker.runs
    two.stop()
    two.start()
    remote.build("two2")
    assert given() == (1, 2)
    one.start()
