"""Where a code host shows the files of a catalog, by the clone that it is in."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlir_matrix.site.places import Clone, clone_of
from support.machine import git

_UNKNOWN = Clone("", "", frozenset())


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """A catalog in a folder of a clone."""
    catalog = tmp_path / "clone" / "catalog"
    catalog.mkdir(parents=True)
    (catalog / "kept.yaml").write_text("1")
    (catalog / "changed.yaml").write_text("1")
    git(catalog.parent, "init", "-q")
    git(catalog, "add", ".")
    git(catalog, "commit", "-qm", "one")
    git(catalog, "remote", "add", "origin", "https://me:secret@github.com/acme/models.git")
    return catalog


def test_files_are_shown_at_the_commit_unless_they_differ(catalog: Path) -> None:
    (catalog / "changed.yaml").write_text("2")
    (catalog / "new.yaml").write_text("1")
    clone = clone_of(catalog)
    commit = git(catalog, "rev-parse", "HEAD")
    assert clone.url("kept.yaml", "3") == f"https://github.com/acme/models/blob/{commit}/catalog/kept.yaml#L3"
    assert clone.url("changed.yaml", "3") == ""
    assert clone.url("new.yaml", "3") == ""


def test_a_worktree_is_shown_as_its_clone(catalog: Path, tmp_path: Path) -> None:
    git(catalog, "worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
    assert clone_of(tmp_path / "tree" / "catalog") == clone_of(catalog)


def test_without_remote_commit_or_repository_nothing_is_known(catalog: Path, tmp_path: Path) -> None:
    git(catalog, "remote", "remove", "origin")
    assert clone_of(catalog) == _UNKNOWN
    empty = tmp_path / "empty"
    git(tmp_path, "init", "-q", "empty")
    git(empty, "remote", "add", "origin", "https://github.com/acme/empty")
    assert clone_of(empty) == _UNKNOWN
    bare = tmp_path / "bare"
    git(tmp_path, "init", "-q", "--bare", "bare")
    git(bare, "remote", "add", "origin", "https://github.com/acme/bare")
    assert clone_of(bare) == _UNKNOWN
    assert clone_of(tmp_path) == _UNKNOWN
