"""A kept catalog stands for reading it only while all its files are as they were."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mlir_matrix.base import fingerprint
from mlir_matrix.base.errors import CatalogError
from mlir_matrix.base.paths import Home, find_home
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.catalog.load import Loader
from mlir_matrix.expand.checks.validate import validate
from mlir_matrix.plan import kept_catalog
from mlir_matrix.plan.kept_catalog import load_catalog
from support.downstream import Downstream
from support.workspace import REPOSITORY

READ, READ_FIRST = kept_catalog.load, kept_catalog.read_first
OWN = f"""\
description: A tool that is built.
provider: source
tools: [own-opt]
build: {{repository: "https://example.org/own", patches: carried/llvm}}
releases:
  - {{release: 1.0+git.{"ab" * 6}, commit: {"ab" * 20}, programs: [bin]}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """An empty one, on a file system with a perfect clock. Other tests may compile the program's own code at the same time."""
    monkeypatch.setenv("MATRIX_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(fingerprint, "_PACKAGE", str(tmp_path / "code"))
    monkeypatch.setattr(fingerprint, "machine_identity", list)
    monkeypatch.setattr(fingerprint, "_untrusted_devices", set)
    monkeypatch.setattr(fingerprint, "_TICK_NS", -1 << 40)
    return find_home()


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This repository without workloads, corpora and suites: how much is read does not matter to most tests."""
    root = tmp_path_factory.mktemp("few")
    for folder in ("matrix/frameworks", "matrix/sources", "matrix/targets", "recipes", "toolchains"):
        shutil.copytree(REPOSITORY / folder, root / folder)
    pins = root / "toolchains/known-good.yaml"
    pins.write_text(pins.read_text().partition("passed:")[0])
    (root / "golden").mkdir()
    (root / "golden/tolerances.yaml").write_text("layers:\n  - {atol: 0, rtol: 0, rationale: X.}\n")
    return root


@pytest.fixture
def mine(tmp_path: Path) -> Downstream:
    made = Downstream(tmp_path / "mine")
    made.workload("twice", jax="def workload(x):\n    return x + x\n")
    return made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that files were read."""
    found: list[int] = []

    def read(roots: Sequence[Path], first: Loader | None = None) -> Catalog:
        found.append(1)
        return READ(roots, first)

    monkeypatch.setattr(kept_catalog, "load", read)
    return found


def test_a_catalog_is_read_once(home: Home, mine: Downstream, reads: list[int]) -> None:
    first, second = (load_catalog([REPOSITORY, mine.root], home) for _ in range(2))
    assert len(reads) == 1
    assert first == second
    assert second.workloads["twice"].document == first.workloads["twice"].document


def test_only_catalogs_of_the_user_are_read_again(
    few: Path, home: Home, mine: Downstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def read_first(root: Path) -> Loader:
        read.append(root)
        return READ_FIRST(root)

    monkeypatch.setattr(kept_catalog, "read_first", read_first)
    first = tmp_path / "first"
    shutil.copytree(few, first)
    load_catalog([first, mine.root], home)
    mine.workload("thrice", jax="x = 1")
    assert load_catalog([first, mine.root], home) == validate(READ([first, mine.root]))
    other = Downstream(tmp_path / "other")
    other.workload("another", jax="x = 1")
    assert load_catalog([first, other.root], home) == validate(READ([first, other.root]))
    assert len(read) == 1
    (first / "recipes/kinds/more.yaml").write_text("description: X.\nfile: more.mlir\n")
    assert "more" in load_catalog([first, other.root], home).kinds
    assert len(read) == 2
    for file in (home.cache / "kept-catalogs").iterdir():
        file.write_bytes(file.read_bytes()[:-100])
    assert "more" in load_catalog([first, other.root], home).kinds
    assert len(read) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda mine, _: mine.workload("thrice", jax="x = 1"),
        lambda mine, _: (mine.root / "matrix/workloads/twice/jax.py").write_text("x = 1"),
        lambda mine, _: (mine.root / "golden/twice/y.npy").rename(mine.root / "golden/twice/z.npy"),
        lambda _, files: [file.write_bytes(file.read_bytes()[:-100]) for file in files],
        lambda _, files: [file.write_bytes(b"0" + file.read_bytes()) for file in files],
        lambda _, files: [file.unlink() for file in files],
        lambda _, files: [(file.unlink(), os.mkfifo(file)) for file in files],
        lambda mine, files: [file.symlink_to(file.rename(mine.root / file.name)) for file in files],
    ],
    ids=["new", "edited", "renamed", "cut", "damaged", "gone", "pipe", "link"],
)
def test_a_change_is_read(
    change: Callable[[Downstream, Sequence[Path]], object], few: Path, home: Home, mine: Downstream, reads: list[int]
) -> None:
    load_catalog([few, mine.root], home)
    kept = [*(home.cache / "kept-catalogs").iterdir()]
    assert len(kept) == 2, "the first catalog, and both"
    change(mine, kept)
    with contextlib.suppress(CatalogError):
        load_catalog([few, mine.root], home)
    assert len(reads) == 2


def test_what_changes_while_it_is_read_is_not_kept(
    few: Path, home: Home, mine: Downstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(roots: Sequence[Path], first: Loader | None = None) -> Catalog:
        found = READ(roots, first)
        mine.workload("thrice", jax="x = 1")
        return found

    monkeypatch.setattr(kept_catalog, "load", read)
    load_catalog([few, mine.root], home)
    (first,) = (home.cache / "kept-catalogs").iterdir()
    assert b"twice" not in first.read_bytes()


def test_stale_goldens_are_refused_after_they_were_accepted(few: Path, home: Home, mine: Downstream) -> None:
    (mine.root / "matrix/workloads/twice/reference.py").write_text("def reference(x):\n    return x\n")
    load_catalog([few, mine.root], home, stale_goldens=True)
    with pytest.raises(CatalogError):
        load_catalog([few, mine.root], home)


def test_programs_outside_of_the_covered_folders_are_read_each_time(
    few: Path, home: Home, mine: Downstream, reads: list[int]
) -> None:
    mine.write("matrix/corpora/ours/corpus.yaml", "description: d\nsource: lit\nfolder: programs\n")
    mine.write("programs/one.mlir", "// RUN: true\n")
    for _ in range(2):
        load_catalog([few, mine.root], home)
    assert len(reads) == 2


@pytest.mark.parametrize("folder", ["programs", "third_party/programs"])
def test_programs_that_come_later_are_found(
    folder: str, few: Path, home: Home, mine: Downstream, reads: list[int]
) -> None:
    """Those of a corpus whose checkout may also be the catalog itself."""
    data = f"{{url: https://example.org/x, commit: {'ab' * 20}}}"
    mine.write("matrix/corpora/ours/corpus.yaml", f"description: d\nsource: lit\nfolder: {folder}\ndata: {data}\n")
    (mine.root / "third_party").mkdir()
    for _ in range(2):
        assert "ours" in load_catalog([few, mine.root], home).without_data
    assert len(reads) == 1
    mine.write(f"{folder}/one.mlir", "// RUN: true\n")
    assert "ours:one" in load_catalog([few, mine.root], home).workloads


def test_patches_that_are_gone_are_missed(few: Path, home: Home, mine: Downstream) -> None:
    (mine.root / "carried/llvm").mkdir(parents=True)
    mine.write("toolchains/components/own.yaml", OWN)
    for _ in range(2):
        load_catalog([few, mine.root], home)
    (mine.root / "carried/llvm").rmdir()
    with pytest.raises(CatalogError, match="carried/llvm"):
        load_catalog([few, mine.root], home)
