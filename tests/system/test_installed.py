"""The program as its users have it: sdist and wheel are built and installed, and run outside of any checkout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlir_matrix import __version__
from support.workspace import REPOSITORY, ROOMS, Workspace

_CELLS = ("mlir/linalg-loops/x86_64/axpy", "mlir/linalg-vectorized/x86_64/axpy")
_LOCK = REPOSITORY / "tools" / "requirements.txt"
#: The suffixes of what the package has: code, the times that `matrix cost audit` replays, and the pages of sites.
_CODE = (".py", ".c", ".typed", ".txt", ".html", ".css", ".js", ".svg")


def call(*command: str | Path, cwd: Path = REPOSITORY) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def pip(*words: str | Path) -> None:
    call(sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", *words)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the sdist of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-P", "-m", "hatchling", "build", "-t", "sdist", "-d", folder)
    (sdist,) = folder.iterdir()
    assert sdist.name == f"mlir_matrix-{__version__}.tar.gz"
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", folder, sdist)
    (wheel,) = folder.glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Installed:
    """The program in an environment that has nothing else, called in a folder that has nothing of ours."""

    python: Path
    cwd: Path
    env: dict[str, str]

    def __call__(self, *words: str, code: int = 0, command: Sequence[str] = ()) -> str:
        done = subprocess.run(
            [*(command or [str(self.python.with_name("matrix"))]), *words],
            cwd=self.cwd, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout or done.stderr

    def files(self) -> set[tuple[str, int]]:
        """All files of the environment, with the times of their last change."""
        paths = (path for path in self.python.parents[1].rglob("*") if path.is_file())
        return {(str(path.relative_to(self.python.parents[1])), path.stat().st_mtime_ns) for path in paths}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory, workspace: Workspace) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    call(base, "-I", "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    # Without bytecode, as uv does, and as an image that is read-only may have it.
    install = ("--python", python, "install", "--no-deps", "--no-compile", "--only-binary=:all:")
    pip(*install, "--require-hashes", "-r", _LOCK)
    pip(*install, wheel)
    pip("--python", python, "check")
    (folder / "cwd").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MATRIX"))}
    env = kept | {name: value for name, value in workspace.env.items() if not name.startswith("PYTHON")}
    return Installed(python, folder / "cwd", env | {"MATRIX_HOME": str(workspace.home)})


def test_the_wheel_has_what_a_checkout_has(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    ours = "mlir_matrix/_repository/"
    rooms = [*ROOMS, "containers", "docs/schemas", "tools/cmake", "tools/new", "tools/template"]
    paths = [path for room in rooms for path in (REPOSITORY / room).rglob("*") if path.is_file()]
    wanted = {f"{path.relative_to(REPOSITORY)}" for path in paths if "__pycache__" not in path.parts}
    assert {name.removeprefix(ours) for name in names if name.startswith(ours)} == wanted | {
        "MODULE.bazel", "BUILD.bazel",
    }  # fmt: skip
    package = {path for path in (REPOSITORY / "tools/mlir_matrix").rglob("*") if path.suffix in _CODE}
    code = {name for name in names if name.startswith("mlir_matrix/") and not name.startswith(ours)}
    assert code == {str(path.relative_to(REPOSITORY / "tools")) for path in package}


def test_links_of_the_readme_lead_somewhere_on_a_package_index(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        readme = archive.read(f"mlir_matrix-{__version__}.dist-info/METADATA").decode()
    assert (
        "](https://github.com/llvm/mlir-matrix/blob/main/docs/selecting-tests.md#tests-that-a-change-can-affect)"
        in readme
    )
    assert set(re.findall(r"\]\((\w*:?)", readme)) == {"https:"}


def test_a_new_catalog_runs_at_once(installed: Installed) -> None:
    before = installed.files()
    assert installed("--version") == f"matrix, version {__version__}\n"
    assert "try: cd acme && matrix run" in installed("init", "acme")
    done = json.loads(installed("run", "nightly", "--catalog", "acme", "--format", "json", "--cache-dir", "fresh"))
    assert [(test["id"], test["outcome"]) for test in done["tests"]] == [(cell, "pass") for cell in _CELLS]
    assert done["executed"] > len(_CELLS)
    again = json.loads(installed("run", "nightly", "--catalog", "acme", "--format", "json", "--cache-dir", "fresh"))
    assert again["executed"] == 0
    # Python itself writes these, before the program has begun.
    new = {Path(name) for name, _ in installed.files() - before}
    assert {path.parts[-3:-1] for path in new} <= {("mlir_matrix", "__pycache__")}
    assert {path.name.partition(".")[0] for path in new} <= {"__init__", "__main__", "paths"}


def test_bazel_finds_its_rules_and_the_code(installed: Installed) -> None:
    words = ("--catalog", "bazel", "--executor", "bazel", "--format", "json", "--cache-dir", "for-bazel")
    installed("init", "bazel")
    done = json.loads(installed("run", _CELLS[0], *words))
    assert done["summary"]["by_outcome"] == {"pass": 1}


def test_actions_see_nothing_of_the_program_but_its_actions(installed: Installed) -> None:
    """Beside it is another NumPy than that of an environment."""
    text = installed("explain", "jax/linalg-loops/x86_64/transpose")
    read = {line.split()[1] for line in text.splitlines() if line.lstrip().startswith("reads /")}
    (packages,) = installed.python.parents[1].glob("lib/*/site-packages")
    assert {path for path in read if Path(path).is_relative_to(packages)} == {f"{packages}/mlir_matrix/actions"}
    done = installed("run", "jax/linalg-loops/x86_64/transpose", "--format", "json")
    assert json.loads(done)["summary"]["by_outcome"] == {"pass": 1}


def test_a_failure_is_repeated_by_the_same_program(installed: Installed) -> None:
    installed("init", "wrong")
    source = installed.cwd / "wrong/matrix/workloads/axpy/linalg.mlir"
    source.write_text(source.read_text().replace("arith.addf", "arith.subf"))
    said = installed("run", _CELLS[0], "--catalog", "wrong", code=1)
    assert f"repeat: matrix run --catalog wrong {_CELLS[0]}" in said
    (folder,) = (Path(installed.env["MATRIX_HOME"]) / "state" / "failures").glob(f"*/{_CELLS[0]}")
    script = folder / "repeat.sh"
    assert "1 mismatch" in installed(code=1, command=[str(script)])
