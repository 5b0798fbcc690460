"""Bazel from Debian's packages in a prefix: offline, with nothing of the machine's, as ``which`` names it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.bazel.locate import WORKSPACE, locate, probe
from mlir_matrix.environments.session import Session
from support.downstream import processes

GENRULE = 'genrule(name = "shout", outs = ["shout.txt"], srcs = [":probe"], cmd = "tr a-z A-Z < $< > $@")\n'


@pytest.fixture
def component(current: Session, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Bazel that is used where the machine has none."""
    monkeypatch.delenv("MATRIX_BAZEL", raising=False)
    found = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if "bazel" in name else found(name, **more))
    bazel = locate(current)
    assert (bazel.where, bazel.version, bazel.here) == ("component", "7.7.1", True)
    return Path(bazel.command[0])


def test_a_build(component: Path, tmp_path: Path, request: Any) -> None:
    """An extension, a repository rule, an action in a sandbox, a rule of Bazel's own tools."""
    bazel_workspace = tmp_path / "workspace"
    bazel_workspace.mkdir()
    for name, text in WORKSPACE.items():
        (bazel_workspace / name).write_text(text)
    (bazel_workspace / "BUILD.bazel").write_text(WORKSPACE["BUILD.bazel"] + GENRULE)
    # A short build ends sooner if Java compiles little.
    quick = "--host_jvm_args=-XX:TieredStopAtLevel=1"
    start = [component, "--nohome_rc", quick, f"--output_user_root={tmp_path / 'root'}"]
    request.addfinalizer(
        lambda: subprocess.run([*start, "shutdown"], cwd=bazel_workspace, check=True, capture_output=True)
    )
    # A PATH that a machine without Java, compilers and Python has.
    words = ["build", "--noenable_workspace", "--spawn_strategy=sandboxed", "//..."]
    subprocess.run([*start, *words], cwd=bazel_workspace, env={"PATH": "/usr/bin:/bin"}, check=True, timeout=300)
    assert (bazel_workspace / "bazel-bin/shout.txt").read_text() == "IT BUILDS\n"


def test_it_passes_its_own_probe(component: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing of that stays, no server either."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = probe(component, tmp_path)
    assert (found.version, found.reason) == ("7.7.1", "")
    assert [path.name for path in tmp_path.iterdir()] == ["bazel-probes.json"]
    assert not processes(command=str(tmp_path))
