"""What is looked at before a worker runs anything: that its prefixes are whole."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mlir_matrix.actions.runtime import bootstrap
from mlir_matrix.actions.runtime.integrity import lost
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.install.debian import provide
from support import debs


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A real one, as it is installed."""
    mirror = debs.Mirror(tmp_path / "mirror")
    (tmp_path / "packages").mkdir()
    store = Artifacts(tmp_path / "artifacts")
    lock = debs.release(mirror)
    return provide(lock, artifacts=store, packages=tmp_path / "packages", mirrors=lambda: (mirror.base,))


def start(folder: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """A worker of an environment that consists of a prefix; there is no action for it."""
    words = [sys.executable, "-P", "-s", "-S", bootstrap.__file__, "--prefix", f"2.0={folder}", "--persistent_worker"]
    environment = {"PATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(words, cwd=tmp_path, env=environment, input="", capture_output=True, text=True, check=False)


def test_undamaged_prefix_starts(prefix: Path, tmp_path: Path) -> None:
    """Also where it was copied; what is not there at all has no programs, which is said when one is wanted."""
    assert lost(str(prefix)) == ""
    assert lost(str(shutil.copytree(prefix, tmp_path / "copy", symlinks=True))) == ""
    assert lost(str(tmp_path / "nowhere")) == ""
    assert start(prefix, tmp_path).returncode == 0


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def elsewhere(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("name", "harm", "words"),
    [
        ("usr/lib/1.so", cut, "usr/lib/1.so has another size or mode"),
        ("usr/lib/1.so", Path.unlink, "usr/lib/1.so cannot be read: [Errno 2] No such file"),
        ("opt/t/bin/say", lambda path: path.chmod(0o644), "opt/t/bin/say has another size or mode"),
        ("usr/lib/l2", Path.unlink, "usr/lib/l2 cannot be read: [Errno 2] No such file"),
        ("usr/lib/l2", elsewhere, "usr/lib/l2 leads elsewhere"),
        (".matrix/prefix.json", cut, ".matrix/prefix.json has another size or mode"),
        (".matrix/files.json", cut, ".matrix/files.json cannot be read: "),
        (".matrix/files.json", Path.unlink, ".matrix/files.json cannot be read: [Errno 2] No such file"),
    ],
)
def test_damaged_prefix_is_refused(
    prefix: Path, tmp_path: Path, name: str, harm: Callable[[Path], None], words: str
) -> None:
    """Nothing is run on it: a compiler without its library would be blamed on the code, and that be kept."""
    harm(prefix / name)
    assert lost(str(prefix)).startswith(words)
    done = start(prefix, tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"the prefix in {prefix} is damaged: {words}")
    assert done.stderr.endswith("; remove that folder to have it installed again\n")


@pytest.mark.parametrize(
    "value", [[], 1, {"files": {}}, {"links": {}, "files": {"a": 1}}, {"files": {"a": [1, 2]}, "links": {}}]
)
def test_a_list_of_another_shape(prefix: Path, value: object) -> None:
    (prefix / ".matrix" / "files.json").write_text(json.dumps(value))
    assert "cannot be read: " in lost(str(prefix))


def test_a_file_that_may_not_be_looked_at(prefix: Path) -> None:
    """Is as good as none."""
    shutil.rmtree(prefix / "usr" / "lib")
    os.symlink("lib", prefix / "usr" / "lib")
    assert "usr/lib/1.so cannot be read: [Errno 40]" in lost(str(prefix))
