"""Corpora: whatever others call their files, each is a member with a name of its own; none stops the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlir_matrix.base.names import MEMBER
from mlir_matrix.catalog import corpora
from mlir_matrix.expand.select import choose

FORM = """\
description: d
gives: pytorch.py
members: ["**/*.py"]
environment: torch
parameters: {model: {description: d, default: Model}}
"""
CORPUS = "description: d\nsource: module\nfolder: models\n"


@pytest.fixture
def catalog(tree: Any) -> Any:
    tree.write("matrix/sources/module/source.yaml", FORM)
    tree.write("matrix/sources/module/prepare.py", "def run(action): ...\n")
    tree.write("matrix/corpora/zoo/corpus.yaml", CORPUS)
    for path in ("a.py", "b/a.py", "b/odd name!.py", "_x.py", "notes.txt", "Deep/er/B.py"):
        tree.write(f"models/{path}", "pass\n")
    return tree


def members(tree: Any) -> dict[str, str]:
    found = tree.load().workloads
    return {name: entry.member for name, entry in found.items() if MEMBER in name}


def test_members_are_named_by_their_paths(catalog: Any) -> None:
    assert members(catalog) == {
        "zoo:a": "a.py",
        "zoo:b.a": "b/a.py",
        "zoo:b.odd_name_": "b/odd name!.py",
        "zoo:m_x": "_x.py",
        "zoo:Deep.er.B": "Deep/er/B.py",
    }


def test_two_of_one_name(catalog: Any) -> None:
    catalog.write("models/b.a.py", "pass\n")
    catalog.write("models/A.py", "pass\n")
    found = members(catalog)
    assert sorted(found.values()) == sorted(
        ["A.py", "a.py", "b.a.py", "b/a.py", "b/odd name!.py", "_x.py", "Deep/er/B.py"]
    )
    assert len({name.casefold() for name in found}) == len(found) == 7


def test_a_corpus_may_choose_its_members(catalog: Any) -> None:
    catalog.write("matrix/corpora/zoo/corpus.yaml", f'{CORPUS}members: ["b/*.py", "?.py"]\n')
    assert set(members(catalog).values()) == {"b/a.py", "b/odd name!.py", "a.py"}


def test_a_corpus_without_members_is_left_out(catalog: Any) -> None:
    catalog.write("matrix/corpora/zoo/corpus.yaml", f"{CORPUS}members: ['*.md', 'none/*.py']\n")
    (why,) = catalog.load().over.values()
    assert why.endswith("corpus.yaml: has no members: no file below 'models' matches *.md, none/*.py; it is left out")
    catalog.write("matrix/corpora/zoo/corpus.yaml", CORPUS.replace("folder: models\n", ""))
    catalog.write("matrix/corpora/zoo/members.txt", "# none\n")
    (why,) = catalog.load().over.values()
    assert "corpus.yaml: lists no members: give a 'folder', or make members.txt by `matrix expect zoo --write`" in why


def test_members_in_a_list(catalog: Any) -> None:
    catalog.write("matrix/corpora/zoo/corpus.yaml", CORPUS.replace("folder: models\n", ""))
    catalog.write("matrix/corpora/zoo/members.txt", "# cases\ntest_abs\n\n../up\ntest_abs\n")
    assert list(members(catalog).values()) == ["test_abs", "../up"]


def test_what_cannot_be_a_program_is_unsupported_alone(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (catalog.path / "models" / "out.py").symlink_to("/etc/passwd")
    (catalog.path / "models" / "gone.py").symlink_to("nowhere.py")
    catalog.write("models/large.py", "#" * 99)
    catalog.write("models/odd\udcff.py", "pass\n")
    monkeypatch.setattr(corpora, "MOST_BYTES", 50)
    reasons = {test.id: test.reason for test in choose(catalog.load(), ["pytorch/plain/x86_64/zoo:*"]).tests()}
    assert reasons["pytorch/plain/x86_64/zoo:out"].endswith("is a symbolic link that leaves the catalog")
    assert "cannot be read: No such file" in reasons["pytorch/plain/x86_64/zoo:gone"]
    assert reasons["pytorch/plain/x86_64/zoo:large"] == "large.py of corpus zoo has 99 bytes; a program can have 50"
    assert reasons["pytorch/plain/x86_64/zoo:odd_"] == r"odd\udcff.py of corpus zoo has a name that is not UTF-8"
    assert reasons["pytorch/plain/x86_64/zoo:a"] == "in the catalog"


def test_a_folder_that_cannot_be_read(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members must not go missing without a word."""

    def walk(top: Path, onerror: Any) -> Any:
        onerror(PermissionError(13, "Permission denied", str(top)))

    monkeypatch.setattr(corpora.os, "walk", walk)
    (error,) = catalog.errors()
    assert error.endswith("corpus.yaml:3:1: folder 'models' cannot be read: Permission denied")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("folder: ../else", "3:1: '../else' leads out of the catalog; give a folder below it"),
        ("folder: /etc", "3:1: '/etc' leads out of the catalog; give a folder below it"),
        ("folder: none", "3:1: there is no folder 'none' in"),
        ("with: {modle: M}", "3:8: source 'module' has no parameter 'modle'; did you mean 'model'?"),
        ("environment: troch", "3:1: there is no environment 'troch'; did you mean 'torch'?"),
        ("environment: torch", "3:1: 'environment' has no effect: only a target that judges takes it"),
        ("with: {model: 3}", "3:8: the parameter 'model' of source 'module' takes text, got the number 3"),
    ],
)
def test_a_corpus_that_is_wrong(catalog: Any, text: str, error: str) -> None:
    given = CORPUS.replace("folder: models", text) + ("" if text.startswith("folder") else "folder: models\n")
    catalog.write("matrix/corpora/zoo/corpus.yaml", given)
    assert any(f"corpus.yaml:{error}" in line for line in catalog.errors()), catalog.errors()


def test_only_a_pattern_with_a_colon_includes_members(catalog: Any) -> None:
    found = catalog.load()
    assert not any(MEMBER in name for name in choose(found, ["pytorch/**"]).ids())
    assert set(choose(found, ["pytorch/plain/x86_64/zoo:b*"]).ids()) == {
        "pytorch/plain/x86_64/zoo:b.a",
        "pytorch/plain/x86_64/zoo:b.odd_name_",
    }


@given(st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=300))
@settings(max_examples=200)
def test_any_name_becomes_one_that_identifiers_hold(text: str) -> None:
    from mlir_matrix.base.names import test_glob

    name = corpora._name_of(text)
    assert len(name) <= 120
    assert test_glob(f"pytorch/plain/x86_64/zoo:{name}").matches(f"pytorch/plain/x86_64/zoo:{name}")


def test_a_workload_in_the_form_of_others(catalog: Any, tmp_path: Path) -> None:
    catalog.write("matrix/workloads/net/workload.yaml", "description: d\nsource: module\nwith: {model: Net}\n")
    catalog.write("matrix/workloads/net/net.py", "class Net: ...\n")
    entry = catalog.load().workloads["net"]
    assert (entry.member, entry.document.parameters) == ("net.py", {"model": "Net"})
    assert entry.files["pytorch.py"].name == "net.py"
    catalog.write("matrix/workloads/net/other.py", "class Net: ...\n")
    (error,) = catalog.errors()
    assert error.endswith("workload.yaml:2:1: 2 files can be the program: net.py, other.py; name it by 'program'")
    catalog.write(
        "matrix/workloads/net/workload.yaml", "description: d\nsource: module\nprogram: other.py\ndims: {N: 3}\n"
    )
    (error,) = catalog.errors()
    assert error.endswith("workload.yaml:4:1: 'dims' has no effect with 'source': the program's own code declares it")
