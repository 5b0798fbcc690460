"""Files beside the members of a corpus: found once for all members, and nothing outside of the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlir_matrix.catalog.corpora import MOST_BESIDE

FORM = "description: d\ngives: linalg.mlir\nmembers: ['*.mlir']\n"
CORPUS = "matrix/corpora/c/corpus.yaml"


@pytest.fixture
def corpus(tree: Any) -> Any:
    tree.write("matrix/sources/form/source.yaml", FORM)
    for name in ("a.mlir", "b.mlir", "data/x.txt", "data/deep/y.txt", "data/z.bin"):
        tree.write(f"tests/{name}", "text\n")

    def make(beside: str) -> Any:
        tree.write(CORPUS, f"description: d\nsource: form\nfolder: tests\nbeside: {beside}\n")
        return tree

    return make


@pytest.mark.parametrize(
    ("beside", "names"),
    [
        ("[]", []),
        ("['tests/data/*.txt']", ["x.txt"]),
        ("['tests/data/**/*.txt']", ["deep/y.txt", "x.txt"]),
        ("['tests/data/z.bin', 'tests/data/?.txt']", ["x.txt", "z.bin"]),
        ("['tests/data/no*']", []),
    ],
)
def test_files_are_found(corpus: Any, beside: str, names: list[str]) -> None:
    tree = corpus(beside)
    workloads = tree.load().workloads
    members = [entry for name, entry in workloads.items() if name.startswith("c:")]
    assert [entry.member for entry in members] == ["a.mlir", "b.mlir"]
    for entry in members:
        assert sorted(entry.beside) == [f"tests/data/{name}" for name in names]
        assert all(path == tree.path / name for name, path in entry.beside.items())


@pytest.mark.parametrize(
    ("beside", "error"),
    [
        ("['../*']", f"{CORPUS}:4:10: '..' leads out of the catalog; give a folder below it"),
        ("['/etc/*']", f"{CORPUS}:4:10: '/etc' leads out of the catalog; give a folder below it"),
        ("['nothing/*']", f"{CORPUS}:4:10: there is no folder 'nothing' in "),
        ("['tests/link/*']", f"{CORPUS}:4:10: 'tests/link' is a link that leaves the catalog; put the files here"),
        ("['tests/data/passwd']", f"{CORPUS}:4:10: passwd is a symbolic link that leaves the catalog"),
    ],
)
def test_nothing_outside_is_read(corpus: Any, beside: str, error: str) -> None:
    tree = corpus(beside)
    (tree.path / "tests/link").symlink_to("/etc")
    (tree.path / "tests/data/passwd").symlink_to("/etc/passwd")
    (found,) = tree.errors()
    assert found.startswith(error)


def test_too_many_files(corpus: Any) -> None:
    tree = corpus("['tests/many/*']")
    for number in range(MOST_BESIDE + 1):
        Path(tree.write(f"tests/many/{number}", ""))
    (found,) = tree.errors()
    assert found == f"{CORPUS}:4:1: names {MOST_BESIDE + 1} files; members can have {MOST_BESIDE} beside them"
