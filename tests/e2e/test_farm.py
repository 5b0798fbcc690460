"""Bazel executes on the farm: each action by a worker of the pool that it asks for, in a sandbox without machine or network."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.events import Event, Note
from mlir_matrix.execute.bazel import client
from mlir_matrix.execute.options import ExecutorOptions, Limits
from mlir_matrix.expand.select import choose
from mlir_matrix.judge.run import run_plan
from mlir_matrix.paths import Home
from mlir_matrix.session import Session
from mlir_matrix.toolchains.bazel import locate
from support.farm import Farm, farm, unsupported

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


def test_a_pool_without_a_worker(
    running: Farm, current: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BuildGrid would wait for one for ever, and say nothing."""
    monkeypatch.setattr(client, "STALL_NOTE_S", 3.0)
    monkeypatch.setattr(client, "STALL_END_S", 10.0)
    events: list[Event] = []
    session = replace(current, home=Home(cache=current.home.cache, state=tmp_path, actions=tmp_path / "actions"))
    test = "mlir/math-expand/ir/tanh"
    plan = session.plan(choose(session.catalog, [test]).tests())
    options = ExecutorOptions(executor="bazel", remote=running.url, properties=(("pool", "three"),))
    done = run_plan(session, plan, options=options, limits=Limits(jobs=2), fail_fast=False, listener=events.append)
    (result,) = done.results
    assert (result.id, result.outcome) == (test, "infra-error")
    assert f"no action came back from {running.url} for 10 s" in result.reason
    assert "(--exec-property pool=three)" in result.reason
    assert f"no action came back from {running.url} for 3 s" in next(
        event.text for event in events if isinstance(event, Note)
    )
