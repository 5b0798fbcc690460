"""Builds of one's own: what is found in a tree, and what identifies it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.toolchains import Component
from mlir_matrix.catalog.pins import is_folder
from mlir_matrix.environments.host import HostTool
from mlir_matrix.environments.own_build import find_build, release_of_build
from mlir_matrix.plan.session import open_session
from support.catalogs import entry
from support.programs import LOST_LIBRARY, unloadable

LLVM = "description: d\nprovider: deb\ntools: [mlir-opt, llc]\nreleases: [{release: 19.1.7}]\n"


@pytest.fixture
def llvm() -> Entry[Component]:
    return entry("components", Component, "llvm", LLVM)


def at(folder: Path) -> Home:
    return Home(cache=folder / "cache", state=folder, actions=folder)


def program(path: Path, version: str = "LLVM version 23.0.0git", code: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{version}'\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("place", ["bin", "."])
def test_a_tree_or_its_programs(llvm: Entry[Component], tmp_path: Path, place: str) -> None:
    program(tmp_path / place / "mlir-opt")
    build = find_build(llvm, str(tmp_path), at(tmp_path))
    assert [each.name for each in build.programs] == ["mlir-opt"]
    assert build.release.startswith("23.0.0+own.")
    assert isinstance(build, HostTool)
    release = release_of_build(build, llvm.document)
    assert (release.release, release.provider, release.programs) == (build.release, "host", ("mlir-opt",))


def test_it_is_known_by_its_bytes_and_not_by_its_place(llvm: Entry[Component], tmp_path: Path) -> None:
    home = at(tmp_path)
    for folder in ("one", "two"):
        program(tmp_path / folder / "bin/mlir-opt")
        program(tmp_path / folder / "bin/llc")
    first, second = (find_build(llvm, str(tmp_path / folder), home) for folder in ("one", "two"))
    assert first.release == second.release
    changed = program(tmp_path / "two/bin/llc", "LLVM version 23.0.0git with a change")
    assert find_build(llvm, str(tmp_path / "two"), home).release != first.release
    os.utime(changed, (1, 1))
    assert find_build(llvm, str(tmp_path / "one"), home).release == first.release


def test_its_release_says_what_it_checks(llvm: Entry[Component], tmp_path: Path) -> None:
    home = at(tmp_path)
    program(tmp_path / "one/bin/llc", "LLVM version 23.0.0git\n  Optimized build with assertions.")
    assert find_build(llvm, str(tmp_path / "one"), home).release.endswith(".assertions")
    with program(tmp_path / "two/bin/llc").open("a") as file:
        file.write("\0__ubsan_handle_x\0\0__asan_init\0")
    for _ in range(2):
        assert find_build(llvm, str(tmp_path / "two"), home).release.endswith(".asan.ubsan")


@pytest.mark.parametrize("notes", ["", "[]", '{"/bin/sh": 3}', "\xff"])
def test_spoilt_notes_are_none(llvm: Entry[Component], tmp_path: Path, notes: str) -> None:
    program(tmp_path / "bin/llc")
    home = at(tmp_path)
    find_build(llvm, str(tmp_path), home)
    (kept,) = (home.cache / "own-builds").iterdir()
    kept.write_text(notes, encoding="latin-1")
    assert find_build(llvm, str(tmp_path), at(tmp_path)).release.startswith("23.0.0+own.")


def test_what_is_no_build(llvm: Entry[Component], tmp_path: Path) -> None:
    home = at(tmp_path)
    with pytest.raises(UsageError, match=r"--pin llvm=.*: none of mlir-opt, llc is in this folder or its bin/"):
        find_build(llvm, str(tmp_path), home)
    with pytest.raises(UsageError, match=r"--pin llvm=./nothing: there is no such folder"):
        find_build(llvm, "./nothing", home)
    program(tmp_path / "bin/llc", "no number")
    with pytest.raises(UsageError, match=r"llc --version reports no version"):
        find_build(llvm, str(tmp_path), home)
    program(tmp_path / "bin/llc", code=1)
    with pytest.raises(UsageError, match=r"llc --version reports no version"):
        find_build(llvm, str(tmp_path), home)
    bare = entry("components", Component, "numpy", "description: d\nreleases: [{release: '2'}]\n")
    with pytest.raises(UsageError, match=r"the component numpy has no programs and no packages"):
        find_build(bare, str(tmp_path), home)


def test_a_program_that_does_not_start(llvm: Entry[Component], tmp_path: Path) -> None:
    program(tmp_path / "bin/mlir-opt")
    change, said = LOST_LIBRARY
    llc = unloadable(tmp_path / "bin/llc", change)
    with pytest.raises(InfrastructureError, match=f"a program does not start: {llc}: {said}"):
        find_build(llvm, str(tmp_path), at(tmp_path))
    llc.write_text("of another machine")
    with pytest.raises(InfrastructureError, match=f"{llc} does not start: Exec format error"):
        find_build(llvm, str(tmp_path), at(tmp_path))


def test_pins_that_name_folders() -> None:
    folders = ("./b", "/opt/llvm", "b/", ".", "..", "acmecc-1.4", "w-1.whl", "1.whl")
    assert [is_folder(each) for each in ("19", "19.1.7", *folders)] == [False] * 2 + [True] * len(folders)


def test_a_program_that_says_its_version_is_confined(llvm: Entry[Component], tmp_path: Path) -> None:
    """A pull request may bring the folder and its pin. Its program reads nothing outside, and runs once for its bytes."""
    private = tmp_path / "private"
    private.write_text("hidden words")
    program(tmp_path / "build/bin/mlir-opt", f"LLVM version 23.1.0 $(cat {private}) $(touch {tmp_path}/touched)")
    path = tmp_path / "build/bin/mlir-opt"
    path.write_text(path.read_text().replace("'", '"'))
    first = find_build(llvm, str(tmp_path / "build"), at(tmp_path))
    assert isinstance(first, HostTool)
    assert "23.1.0" in first.programs[0].version
    assert "hidden words" not in first.programs[0].version
    assert not (tmp_path / "touched").exists()
    assert find_build(llvm, str(tmp_path / "build"), at(tmp_path)) == first


def test_a_pinned_wheel_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--pin torch=gone\.whl: there is no such file"):
        open_session(cache_dir=tmp_path / "cache", pins=["torch=gone.whl"])
