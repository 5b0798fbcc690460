"""Fixtures of several folders of the tiers fast and toolchain."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.base.paths import Home, repository
from mlir_matrix.environments.fetch.apt_sources import find_mirrors
from mlir_matrix.environments.install import debian
from mlir_matrix.plan.run_kernels import DRIVER_SOURCES
from support.clock import Clock
from support.fake_bazel import Fakes
from support.fake_containers import Fake
from support.right_catalog import RIGHT, Tree
from support.wheelhouse import wheels

__all__ = ["clock", "driver_sources", "fake", "fakes", "home", "homes", "make_tree", "tree", "wheels", "without_mirror"]


@pytest.fixture(scope="session")
def driver_sources() -> dict[str, str]:
    """The C files of the driver, by name."""
    return {Path(path).name: str(repository() / path) for path in DRIVER_SOURCES}


@pytest.fixture
def homes(tmp_path: Path) -> Callable[[str], Home]:
    """Folders of several users."""

    def make(name: str) -> Home:
        root = tmp_path / name
        return Home(cache=root, state=root / "state", actions=root / "actions")

    return make


@pytest.fixture
def home(homes: Callable[[str], Home]) -> Home:
    """The folders of one."""
    return homes("home")


@pytest.fixture
def fake() -> Iterator[Callable[..., Any]]:
    """Daemons that go with the test."""
    made: list[Fake] = []

    def make(**how: Any) -> Fake:
        made.append(Fake(**how))
        return made[-1]

    yield make
    for each in made:
        each.hang_up()


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    """Programs that are all that there is on PATH."""
    made = Fakes(tmp_path)
    monkeypatch.setenv("PATH", str(made.folder))
    monkeypatch.delenv("MATRIX_BAZEL", raising=False)
    return made


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """The catalog in which everything is right."""
    return Tree(tmp_path / "catalog", RIGHT)


@pytest.fixture
def make_tree(tmp_path: Path) -> Callable[..., Tree]:
    """Makes further catalogs: a name and its files."""
    return lambda name, files: Tree(tmp_path / name, files)


@pytest.fixture
def without_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an apt that knows no mirror, on a machine that names none."""
    folder = tmp_path / "apt"
    folder.mkdir()
    monkeypatch.delenv("MATRIX_DEB_MIRROR", raising=False)
    monkeypatch.setattr(debian, "find_mirrors", partial(find_mirrors, etc=folder))
    return folder


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of this process, which stands still."""
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made
