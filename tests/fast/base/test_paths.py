"""Where state lives: the XDG folders, ``MATRIX_HOME`` for all of it, ``--cache-dir`` for the action cache alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.base import paths
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.files import write_text
from mlir_matrix.base.paths import find_home, repository

VARIABLES = ("MATRIX_HOME", "MATRIX_ROOT", "XDG_CACHE_HOME", "XDG_STATE_HOME")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_the_home_of_the_user(tmp_path: Path) -> None:
    home = find_home()
    assert (home.cache, home.state) == (tmp_path / ".cache/mlir-matrix", tmp_path / ".local/state/mlir-matrix")
    assert home.actions == home.cache / "actions"
    assert (home.packages, home.bytecode) == (home.cache / "packages", home.cache / "bytecode")
    assert home.scratch.is_relative_to(home.actions), "results are moved in, on one file system"
    assert list(tmp_path.iterdir()) == [], "nothing is made before something is written"


def test_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    monkeypatch.setenv("XDG_STATE_HOME", "/x/state")
    assert find_home().cache == Path("/x/cache/mlir-matrix")
    assert find_home().state == Path("/x/state/mlir-matrix")


@pytest.mark.parametrize("value", ["", "relative", "./x", "~/x"])
def test_what_xdg_says_is_to_be_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert find_home().cache == tmp_path / ".cache/mlir-matrix"


@pytest.mark.parametrize("name", ["home", "with space", "ünï"])
def test_matrix_home_moves_all_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.setenv("MATRIX_HOME", str(tmp_path / name))
    home = find_home()
    assert {path.parents[0] for path in (home.packages, home.bytecode, home.actions, home.state)} == {tmp_path / name}


def test_a_relative_one_is_below_the_current_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MATRIX_HOME", "home")
    assert find_home().cache == tmp_path / "home"
    assert find_home(cache_dir=Path("c")).actions == tmp_path / "c"


def test_the_action_cache_alone(tmp_path: Path) -> None:
    home = find_home(cache_dir=tmp_path / "other")
    assert (home.actions, home.scratch) == (tmp_path / "other", tmp_path / "other/scratch")
    assert home.cache == tmp_path / ".cache/mlir-matrix"


def test_packages_that_are_linked_go_by_their_own_path(tmp_path: Path) -> None:
    """Homes that share packages share their compiled Python."""
    (tmp_path / "real").mkdir()
    (tmp_path / ".cache/mlir-matrix").mkdir(parents=True)
    (tmp_path / ".cache/mlir-matrix/packages").symlink_to(tmp_path / "real")
    assert find_home().packages == tmp_path / "real"


def test_without_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The password database has one for everybody with a name."""
    monkeypatch.delenv("HOME")
    assert find_home().cache.is_absolute()


def test_the_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checkout = Path(__file__).resolve().parents[3]
    assert repository() == checkout
    monkeypatch.setattr(paths, "INSTALLED", tmp_path / "_repository")
    (tmp_path / "_repository").mkdir()
    assert repository() == tmp_path / "_repository"
    monkeypatch.setenv("MATRIX_ROOT", str(checkout / "docs" / ".."))
    assert repository() == checkout


def test_files_of_the_installed_program_are_not_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("mlir_matrix.base.files.INSTALLED", tmp_path / "_repository")
    with pytest.raises(UsageError, match="belongs to the installed program; use --catalog"):
        write_text(tmp_path / "_repository/golden/a/y.npy", "")
    assert list(tmp_path.iterdir()) == []
