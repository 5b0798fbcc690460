"""What is said of a run: commits, and whether anything is not committed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mlir_matrix.results.run_info import _BRANCHES, RunInfo
from support.machine import git, program


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a catalog in a folder of it."""
    catalog = tmp_path / "repository" / "catalog"
    catalog.mkdir(parents=True)
    (catalog / "file").write_text("1")
    git(tmp_path / "repository", "init", "-q")
    git(catalog, "add", "file")
    git(catalog, "commit", "-qm", "one")
    return catalog


def test_a_commit_is_clean_until_a_file_of_the_catalog_changes(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    (repository.parent / "elsewhere").write_text("")
    clean = {"folder": str(repository), "commit": commit, "dirty": False, "branch": "main"}
    assert RunInfo("c", [str(repository)]).started()["catalogs"] == [clean]
    (repository / "new").write_text("")
    assert RunInfo("c", [str(repository)]).started()["catalogs"] == [{**clean, "dirty": True}]


def test_the_branch_of_a_commit_is_that_of_the_ci_service(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _BRANCHES:
        monkeypatch.delenv(name, raising=False)
    git(repository, "checkout", "-q", "--detach")
    (catalog,) = RunInfo("c", [str(repository)]).started()["catalogs"]
    assert "branch" not in catalog
    monkeypatch.setenv("CI_COMMIT_REF_NAME", "fix")
    (catalog,) = RunInfo("c", [str(repository)]).started()["catalogs"]
    assert catalog["branch"] == "fix"


def test_the_commit_is_that_of_the_beginning(repository: Path) -> None:
    info = RunInfo("matrix run", [str(repository)])
    started = info.started()
    (repository / "new").write_text("")
    finished = info.finished()
    assert finished == {**started, "ended": finished["ended"]}
    assert started["command"] == "matrix run"
    assert started["started"] <= finished["ended"]


def test_no_repository_no_commit_no_git(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q", "empty")
    for folder in (tmp_path, tmp_path / "empty", tmp_path / "nowhere"):
        assert RunInfo("c", [str(folder)]).started()["catalogs"] == [{"folder": str(folder)}]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert RunInfo("c", [str(repository)]).started()["catalogs"] == [{"folder": str(repository)}]


def test_a_catalog_that_looks_like_a_repository_runs_no_program(tmp_path: Path) -> None:
    """A pull request may add the files of a bare repository, whose configuration names a program."""
    catalog = tmp_path / "catalog"
    git(tmp_path, "init", "-q", "--bare", "catalog")
    (catalog / "program").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (catalog / "program").chmod(0o755)
    with (catalog / "config").open("a") as config:
        config.write(f"[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = {catalog}/program\n")
    subprocess.run([program("git"), "status"], cwd=catalog, check=False, capture_output=True)
    assert (tmp_path / "ran").exists(), "the trap works"
    (tmp_path / "ran").unlink()
    assert RunInfo("c", [str(catalog)]).started()["catalogs"] == [{"folder": str(catalog)}]
    assert not (tmp_path / "ran").exists()
