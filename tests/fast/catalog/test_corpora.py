"""Corpora: whatever others call their files, each is a member with a name of its own; none stops the others."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlir_matrix.base.errors import CatalogError, UsageError
from mlir_matrix.base.names import MEMBER
from mlir_matrix.catalog import corpora
from mlir_matrix.catalog.load import load
from mlir_matrix.expand.checks.validate import validate
from mlir_matrix.expand.select import choose

FORM = """\
description: d
gives: pytorch.py
members: ["**/*.py"]
environment: torch
parameters: {model: {description: d, default: Model}}
"""
EXPECTED = """\
expect:
  - outcome: lower-failed
    reason: d
    cell: pytorch/plain/x86_64
    tests: ["zoo:a"]
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


def test_patterns_have_alternatives(catalog: Any) -> None:
    catalog.write("matrix/corpora/zoo/corpus.yaml", f'{CORPUS}members: ["{{b,Deep/*}}/*.py"]\n')
    assert set(members(catalog).values()) == {"b/a.py", "b/odd name!.py", "Deep/er/B.py"}
    catalog.write("matrix/corpora/zoo/corpus.yaml", f'{CORPUS}members: ["{{b/*.py"]\n')
    assert catalog.errors()[0].endswith("corpus.yaml:4:1: '{b/*.py' has a '{' without its '}'")


def test_several_tests_in_a_file(catalog: Any) -> None:
    form = FORM + "tests: '^def (test_\\w+)'\n"
    catalog.write("matrix/sources/module/source.yaml", form)
    catalog.write("models/a.py", "def test_one(): ...\ndef helper(): ...\ndef test_two(): ...\ndef test_one(): ...\n")
    (catalog.path / "models" / "b" / "a.py").write_bytes(b"def test_\xff")
    assert members(catalog) == {
        "zoo:a.test_one": "a.py::test_one",
        "zoo:a.test_two": "a.py::test_two",
        # It stays, so that its test fails with the reason.
        "zoo:b.a": "b/a.py",
    }
    (catalog.path / "models" / "a.py").write_bytes(b"def test_one(): ...\n" + b"#" * corpora.MOST_BYTES)
    (why,) = catalog.load().over.values()
    assert why.startswith(f"a.py of corpus zoo has {corpora.MOST_BYTES + 20} bytes")


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("def (", "not a regular expression: missing ), unterminated subpattern at position 4"),
        ("def .*", "a regular expression with 0 groups; expected one, which is the name of a test"),
    ],
)
def test_an_expression_that_names_no_tests(catalog: Any, expression: str, error: str) -> None:
    catalog.write("matrix/sources/module/source.yaml", f"{FORM}tests: '{expression}'\n")
    assert any(error in line for line in catalog.errors()), catalog.errors()


COMMIT = "ab" * 20
DATA = f"{CORPUS}data: {{url: https://example.org/zoo, commit: {COMMIT}}}\n"
NEEDED = "corpus zoo needs a checkout of https://example.org/zoo at abababababab: --data zoo=DIR"


@pytest.fixture
def with_data(catalog: Any) -> Any:
    """A corpus whose programs are elsewhere, a suite of it, and one that contains that suite."""
    shutil.rmtree(catalog.path / "models")
    catalog.write("matrix/corpora/zoo/corpus.yaml", DATA)
    catalog.write("matrix/suites/animals.yaml", 'description: d\ninclude: ["pytorch/plain/x86_64/zoo:*"]\n')
    catalog.write("matrix/suites/all.yaml", "description: d\nsuites: [animals]\n")
    catalog.write("matrix/expectations/animals.yaml", EXPECTED)
    return catalog


def test_without_its_checkout_a_corpus_and_its_suites_are_not_there(with_data: Any) -> None:
    assert not members(with_data)
    found = validate(with_data.load(), stale_goldens=True)
    for words in (["animals"], ["all"], ["pytorch/plain/x86_64/zoo:b.a"], ["**/zoo:*"]):
        with pytest.raises(UsageError, match=re.escape(NEEDED)):
            choose(found, words)
    assert not found.over, "it is no problem of the catalog"


def test_a_corpus_whose_name_ends_alike_keeps_its_suites(with_data: Any) -> None:
    with_data.write("programs/a.py", "pass\n")
    with_data.write("matrix/corpora/my-zoo/corpus.yaml", CORPUS.replace("models", "programs"))
    with_data.write("matrix/suites/mine.yaml", 'description: d\ninclude: ["pytorch/plain/x86_64/my-zoo:*"]\n')
    assert set(choose(validate(with_data.load(), stale_goldens=True), ["mine"]).ids()) == {
        "pytorch/plain/x86_64/my-zoo:a"
    }


def test_a_checkout_has_the_programs(with_data: Any, tmp_path: Path) -> None:
    for path in ("models/a.py", "models/b/a.py", "README.md"):
        (tmp_path / "zoo" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "zoo" / path).write_text("pass\n")
    catalog = validate(load([with_data.path, tmp_path / "zoo"]), stale_goldens=True)
    assert set(choose(catalog, ["all"]).ids()) == {"pytorch/plain/x86_64/zoo:a", "pytorch/plain/x86_64/zoo:b.a"}
    assert catalog.workloads["zoo:a"].root == tmp_path / "zoo"


def test_a_folder_that_is_neither_a_catalog_nor_the_checkout(with_data: Any, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(
        CatalogError, match=r"holds no catalog: .* is here; and no programs of a corpus: expected models"
    ):
        load([with_data.path, tmp_path / "other"])


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
