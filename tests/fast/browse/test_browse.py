"""``matrix list`` and ``matrix show`` on the catalog of this repository, and which entries name which others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mlir_matrix.base.errors import UsageError
from mlir_matrix.browse.commands import list_command, show_command
from mlir_matrix.browse.references import KINDS, entries_of, references
from mlir_matrix.cli.verbs import Verb
from mlir_matrix.environments.session import Session
from support.right_catalog import Tree


def call(command: Verb, *words: str) -> Result:
    return CliRunner().invoke(command, words, catch_exceptions=False)


def listed(*words: str) -> list[dict[str, Any]]:
    document: dict[str, Any] = json.loads(call(list_command, *words, "--format", "json").stdout)
    assert document["schema"] == "mlir-matrix/listing/v1"
    entries: list[dict[str, Any]] = document["entries"]
    return entries


def test_list_counts_the_entries_of_each_kind(current: Session) -> None:
    said = call(list_command).stdout.splitlines()
    counts = {line.split()[0]: int(line.split()[1]) for line in said[1 : len(KINDS) + 1]}
    assert counts == {kind: len(entries_of(current.catalog, kind)) for kind in KINDS}


@pytest.mark.parametrize(
    ("words", "kinds", "some"),
    [
        (("steps",), {"step"}, "linalg-to-loops"),
        (("step", "linalg-*", "tosa-*"), {"step"}, "tosa-to-linalg"),
        (("*torch",), {"framework", "step", "kind", "component", "environment"}, "pytorch"),
        (("mlp",), {"workload"}, "mlp"),
    ],
)
def test_list_selects_a_kind_and_names(words: tuple[str, ...], kinds: set[str], some: str) -> None:
    entries = listed(*words)
    assert {entry["kind"] for entry in entries} == kinds
    assert some in {entry["name"] for entry in entries}
    assert all(entry["description"] and entry["file"].endswith(".yaml") for entry in entries)


def test_list_prints_a_line_an_entry() -> None:
    said = call(list_command, "steps", "linalg-to-*").stdout.splitlines()
    assert [line.split()[0] for line in said[1:]] == ["linalg-to-gpu", "linalg-to-loops", "linalg-to-openmp"]
    assert all(len(line) <= 100 for line in said)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("stepz",), "no entry of the catalogs is named stepz; did you mean 'steps'?"),
        (
            ("steps", "linalg-to-lops"),
            "no entry of the catalogs is named linalg-to-lops; did you mean 'linalg-to-loops'?",
        ),
        (("[",), "'[' has a '[' without characters and a ']' after it"),
    ],
)
def test_list_names_what_there_is_not(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        call(list_command, *words)


def test_show_has_the_file_and_each_use(current: Session) -> None:
    (entry,) = json.loads(call(show_command, "linalg-to-loops", "--format", "json").stdout)["entries"]
    file = current.catalog.roots[0] / entry["file"]
    assert entry["text"] == file.read_text()
    assert {use["kind"] for use in entry["used_by"]} == {"pipeline"}
    for use in entry["used_by"]:
        path, line, column = use["position"].rsplit(":", 2)
        text = (current.catalog.roots[0] / path).read_text().splitlines()[int(line) - 1]
        assert text[int(column) - 1 :].lstrip("- ").startswith("linalg-to-loops")
    said = call(show_command, "linalg-to-loops").stdout
    assert all(use["position"] in said for use in entry["used_by"])


def test_show_counts_the_tests_of_suites() -> None:
    (entry,) = json.loads(call(show_command, "mlp", "--format", "json").stdout)["entries"]
    assert 0 < entry["suites"]["smoke"] < entry["suites"]["everything"]
    assert f"smoke ({entry['suites']['smoke']} tests)" in call(show_command, "mlp").stdout


def test_show_names_all_kinds_of_a_name_or_one() -> None:
    names = [entry["kind"] for entry in json.loads(call(show_command, "torch", "--format", "json").stdout)["entries"]]
    assert names == ["kind", "environment", "component"]
    (one,) = json.loads(call(show_command, "components/torch", "--format", "json").stdout)["entries"]
    assert one["kind"] == "component"
    with pytest.raises(UsageError, match="no entry of the catalogs is named mlpp; did you mean 'mlp'"):
        call(show_command, "mlpp")


def test_references_are_those_of_the_files(tree: Tree, tmp_path: Path) -> None:
    found = {(use.kind, use.name, use.user_kind, use.user) for use in references(tree.load())}
    assert {
        ("kinds", "torch", "steps", "torch-to-tosa"),
        ("kinds", "tosa", "steps", "torch-to-tosa"),
        ("steps", "torch-to-tosa", "pipelines", "plain"),
        ("steps", "tile", "pipelines", "plain"),
        ("steps", "object", "targets", "x86_64"),
        ("kinds", "torch", "frameworks", "pytorch"),
        ("environments", "torch", "frameworks", "pytorch"),
        ("environments", "torch", "targets", "x86_64"),
        ("components", "llvm", "workloads", "mlp"),
        ("components", "torch-mlir", "steps", "tile"),
    } <= found
