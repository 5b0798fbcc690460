"""Make layers: the same bytes for the same lock file, measured once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mlir_matrix.actions.runtime import integrity
from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.base.paths import Home
from mlir_matrix.containers import layers
from mlir_matrix.containers.layers import known, measure, root_layer, root_members, unit_layer, unit_members
from mlir_matrix.containers.tar import Member, pack
from mlir_matrix.environments.installed.integrity import damaged_files
from mlir_matrix.environments.package import Package
from support.artifact_store import fill, made_of


def units(home: Home, **how: bool) -> list[tuple[Package, str]]:
    """What an environment is made of, installed, each with its folder."""
    environment = made_of("numpy")
    fill(home, environment, **how)
    return [(unit, unit.folder_for("cp311")) for unit in environment.units]


def test_the_root_has_mount_points_a_user_and_ways_to_the_system() -> None:
    listed = {member.path: member for member in root_members("cpython-1", 4711)}
    assert listed["lib64"].target == "matrix/packages/cpython-1/lib64"
    assert {path for path, member in listed.items() if member.folder} == {
        "dev", "etc", "matrix", "matrix/packages", "proc", "sys", "tmp", "work",
    }  # fmt: skip
    assert (listed["work"].owner, listed["tmp"].mode) == (4711, 0o1777)
    assert b"matrix:x:4711:4711:" in listed["etc/passwd"].content
    assert root_layer("cpython-1", 4711) == root_layer("cpython-1", 4711)
    assert (
        root_layer("cpython-2", 4711).digest
        != root_layer("cpython-1", 4711).digest
        != root_layer("cpython-1", 1).digest
    )


def test_who_installed_it_when_and_how_does_not_count(homes: Callable[[str], Home]) -> None:
    before = os.umask(0o077)
    first, second = homes("first"), homes("second")
    try:
        found = [unit_layer(unit, folder, first) for unit, folder in units(first)]
    finally:
        os.umask(before)
    other = [unit_layer(unit, folder, second) for unit, folder in units(second, by_pip=True)]
    assert found == other
    assert [layer.label for layer in found] == ["cpython 3.11.2", "numpy 1.0"]


def test_what_is_in_a_layer_is_intact(home: Home, tmp_path: Path) -> None:
    """The lists of files in a layer match its files, as workers check them."""
    for _unit, folder in units(home, by_pip=True):
        unpack(unit_members(home.packages / folder), tmp_path)
        there = tmp_path / "matrix/packages" / folder
        if "numpy" not in folder:
            assert integrity.lost(str(there)) == ""
        else:
            assert integrity.damage(str(there)) == ""
            assert not (there / "numpy-1.0.dist-info/INSTALLER").exists()
            (there / "numpy/data.bin").unlink()
            assert integrity.damage(str(there)) == "numpy/data.bin is missing or has another size"
        assert damaged_files(home.packages / folder, thorough=True) == []


def unpack(listed: list[Member], root: Path) -> None:
    import io
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(b"".join(pack(listed)))) as archive:
        # Debian 12's CPython 3.11.2 has no filters.
        archive.extraction_filter = getattr(tarfile, "tar_filter", None)
        archive.extractall(root)


def test_it_is_measured_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """And then known even where the package is no longer here."""
    (unit, folder), _ = units(home)
    assert known(unit, folder, home) is None
    found = measure(unit, folder, home)
    monkeypatch.setattr(layers, "digest_of", None)
    assert unit_layer(unit, folder, home) == known(unit, folder, home) == found
    monkeypatch.setattr(layers, "FORMAT", 99)
    assert known(unit, folder, home) is None


@pytest.mark.parametrize("note", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "digest": "a", "size": "b"}'])
def test_a_broken_note_is_no_note(home: Home, note: str) -> None:
    (unit, folder), _ = units(home)
    found = measure(unit, folder, home)
    (home.layers / f"{folder}.json").write_text(note)
    assert unit_layer(unit, folder, home) == found


def test_a_damaged_package_is_not_made_a_layer(home: Home) -> None:
    _, (unit, folder) = units(home)
    (home.packages / folder / "numpy/data.bin").write_bytes(b"other")
    with pytest.raises(InfrastructureError, match=r"numpy 1.0 is damaged \(numpy/data.bin\); remove it by: matrix"):
        unit_layer(unit, folder, home)
    assert known(unit, folder, home) is None
    with pytest.raises(InfrastructureError, match=r"is damaged \(its folder is missing\)"):
        measure(replace(unit, version="2.0"), "numpy-2.0", home)  # type: ignore[type-var]
