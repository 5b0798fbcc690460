"""Find interpreters: our own, and those on PATH that run."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlir_matrix.environments import interpreter
from mlir_matrix.environments.interpreter import Interpreter, find, own


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is all of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    interpreter._probe.cache_clear()
    yield folder
    interpreter._probe.cache_clear()


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_own_interpreter_is_the_base_one() -> None:
    """Not the one of the virtual environment: its packages would come with it."""
    assert Path(own().path).is_file()
    assert not Path(own().path).is_symlink()
    assert not (Path(own().path).parents[1] / "pyvenv.cfg").exists()
    assert own().version == platform.python_version()
    assert own().identity() == ["cpython", own().version, own().libc, platform.machine()]


@pytest.mark.parametrize(("version", "tag"), [("3.11.7", "cp311"), ("3.12.0rc1", "cp312"), ("3.9.1", "cp39")])
def test_tags(version: str, tag: str) -> None:
    assert Interpreter(path="/x", version=version, libc="musl").tag == tag


def test_find_prefers_the_own_interpreter(path: Path) -> None:
    assert find(("cp399", own().tag)) == own()


def test_find_an_interpreter_on_path(path: Path) -> None:
    """Its output counts, not its name."""
    major, minor = own().version.split(".")[:2]
    answer = '["/opt/python", "3.99.1", "cpython", "glibc 2.36"]'
    program(path / "python3.99", f"#!/bin/sh\necho '{answer}'\n")
    assert find(("cp399",)) == Interpreter(path="/opt/python", version="3.99.1", libc="glibc 2.36")
    program(path / "python3.98", f'#!/bin/sh\nexec {own().path} "$@"\n')
    assert find(("cp398",)) is None, f"it is {major}.{minor}"


@pytest.mark.parametrize(
    "text",
    [
        "exit 1", "echo nonsense", "echo 3", "echo '[1, 2]'", "kill -9 $$", """echo '["/x", "3.97.0", "pypy", "musl"]'""",
        """echo '[1, 2, "cpython", 4]'""", None,
    ],
)  # fmt: skip
def test_what_does_not_run(path: Path, text: str | None) -> None:
    """For example a version manager's shim for a version that is not installed."""
    program(path / "python3.97", f"#!/bin/sh\n{text}\n" if text else "#!/nowhere\n")
    assert find(("cp397",)) is None


def test_nothing_on_path(path: Path) -> None:
    assert find(("cp396",)) is None
    (path / "python3.96").mkdir()
    assert find(("cp396",)) is None


def test_the_persons_settings_do_not_count(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PYTHONPATH and its like must not decide what is found."""
    (tmp_path / "platform.py").write_text("raise SystemExit")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    tag = own().tag
    os.symlink(own().path, path / f"python{tag[2]}.{tag[3:]}")
    found = interpreter._probe(f"python{tag[2]}.{tag[3:]}")
    assert found is not None
    assert (found.path, found.version) == (own().path, own().version)
