"""What is tested and what is right: each wrong thing in workloads, suites, goldens and tolerances with its sentence."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from mlir_matrix.actions.expr.expression import DEEPEST, LONGEST_TEXT, MOST_NODES
from mlir_matrix.actions.mlir.interface import MAX_ELEMENTS, MAX_POINTERS, MAX_RANK
from mlir_matrix.base.errors import CatalogError, UsageError
from mlir_matrix.base.names import MOST_ALTERNATIVES, NAME_LENGTH
from mlir_matrix.catalog import yaml_reader
from mlir_matrix.catalog.golden_files import LARGEST_TREE, LARGEST_WHOLE, RECORD, record_of
from mlir_matrix.catalog.load import load
from mlir_matrix.catalog.models import base
from mlir_matrix.expand.checks import tests
from mlir_matrix.expand.checks.validate import validate
from mlir_matrix.expand.select import choose
from mlir_matrix.expand.suite import everything
from support.workspace import REPOSITORY

MLP = "matrix/workloads/mlp/workload.yaml"
SMOKE = "matrix/suites/smoke.yaml"


def many(key: str, count: int, more: str = "") -> str:
    """So many tensors more."""
    return "\n".join([f"{key}:", *(f"  a{index}: {{shape: [], dtype: f32{more}}}" for index in range(count)), ""])


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        (MLP, "[B, 3]", f"[{', '.join('1' * 33)}]", "7:111: 33 dimensions; a tensor can have 32"),
        (MLP, "B: 8", "B: 99999999999", "5:7: 3199999999968 elements; a tensor can have 17179869184"),
        (MLP, "inputs:\n", many("inputs", 2047, ', formula: "1"'),
         "2052:3: 2048 inputs; a kernel can have 2047, so join tensors of one dtype and shape"),
        (MLP, "outputs:\n", many("outputs", 2048),
         "2055:3: 2049 outputs; a kernel can have 2048, so join tensors of one dtype and shape"),
    ],
)  # fmt: skip
def test_a_workload_over_a_limit_is_unsupported(tree: Any, file: str, old: str, new: str, says: str) -> None:
    tree.edit(file, old, new)
    catalog = tree.load()
    why = f"{file}:{says}; it is left out"
    assert catalog.over == {("workloads", "mlp"): why}
    tests = list(everything(catalog).tests())
    assert why in {test.reason for test in tests if test.workload == "mlp"}
    assert {test.id for test in tests if test.selected} == {"mlir/tile/ir/basic"}
    assert choose(catalog, ["smoke"]).count(), "its expectation is about such a test"


def test_limits_are_documented() -> None:
    page = (REPOSITORY / "docs" / "catalog-files.md").read_text()
    text = page.partition("## Limits\n")[2]
    schemas = [TypeAdapter(each).json_schema() for each in (base.NameGlob, base.Glob, base.Text)]
    pattern, glob, prose = (schema["maxLength"] for schema in schemas)
    for limit in (
        NAME_LENGTH, tests.MOST_TESTS, MAX_POINTERS - 1, MAX_POINTERS, MAX_RANK, MAX_ELEMENTS, yaml_reader.MOST_LEVELS,
        yaml_reader.MOST_DIGITS, yaml_reader.MOST_CHARACTERS, MOST_ALTERNATIVES, LONGEST_TEXT, MOST_NODES, DEEPEST,
        LARGEST_TREE, pattern, glob, prose,
    ):  # fmt: skip
        assert re.search(rf"(?<![\d,]){limit:,}(?![\d,])", text), limit
    assert yaml_reader.MOST_BYTES == LARGEST_WHOLE == 1 << 20


def test_a_suite_with_too_many_tests_is_left_out_alone(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlir_matrix.expand.checks.tests.MOST_TESTS", 5)
    block = "{product: {framework: [pytorch], workload: [mlp]}, pins: {llvm: ['18', 19.1.7, '18']}}"
    tree.write("matrix/suites/large.yaml", f"description: d\nblocks:\n  - {block}\n  - {block}\n  - {block}\n")
    catalog = tree.load()
    assert list(catalog.suites) == ["releases", "smoke"]
    (why,) = catalog.over.values()
    assert why == (
        "matrix/suites/large.yaml:5:5: 6 tests up to this block; a suite can have 5, so make several suites; it is left out"
    )
    with pytest.raises(UsageError, match="a suite can have 5"):
        choose(catalog, ["large"])
    assert choose(catalog, ["smoke"]).count()


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("uniform(-1, 1) / sqrt(k)", "K"),
        ("__import__('os').system('id')", "column"),
        ("uniform(-1)", "uniform"),
        ("1 +", "column"),
        ("9**9**9**9", "column"),
    ],
)
def test_formulas(tree: Any, formula: str, says: str) -> None:
    tree.edit(MLP, "uniform(-1, 1) / sqrt(K)", formula)
    (error,) = tree.errors()
    assert error.startswith(f"{MLP}:5:34: ")
    assert says in error


def test_a_missing_reference(tree: Any) -> None:
    (tree.path / "matrix/workloads/mlp/reference.py").unlink()
    assert tree.errors() == [f"{MLP}:1:1: the reference is missing: reference.py beside this file"]


def test_an_empty_suite(tree: Any) -> None:
    tree.write(SMOKE, "description: nothing\n")
    assert tree.errors() == [f"{SMOKE}:1:1: the suite is empty: it has no 'suites', 'blocks', 'steps' or 'include'"]


def test_zipped_axes(tree: Any) -> None:
    axes = "{framework: [pytorch, mlir], workload: [mlp]}"
    tree.write(SMOKE, f"description: x\nblocks:\n  - product: {{workload: [mlp]}}\n    zip: {axes}\n")
    assert tree.errors() == [
        f"{SMOKE}:4:5: zipped axes need equal lengths: framework has 2, workload has 1",
        f"{SMOKE}:4:39: the axis 'workload' is under 'product' too",
    ]


def test_star_may_match_nothing(tree: Any) -> None:
    tree.write(SMOKE, "description: x\nblocks: [{product: {framework: ['*']}}]\nsteps: ['*']\n")
    tree.edit(MLP, "absent: {mlir: nobody wrote it}\n", "")
    shutil.rmtree(tree.path / "matrix/frameworks")
    (tree.path / "matrix/workloads/mlp/pytorch.py").unlink()
    assert not tree.load().frameworks


def test_a_golden_in_one_form(tree: Any) -> None:
    (tree.path / "golden/mlp/y.npy").rename(tree.path / "golden/mlp/y.sketch.npy")
    assert "mlp" in tree.load().workloads
    tree.write("golden/mlp/y.npy", "")
    assert "mlp" in tree.load().workloads
    with pytest.raises(CatalogError) as raised:
        validate(load([tree.path]))
    message = "y.npy beside it is the same golden; to keep the right one, run matrix golden update --write mlp"
    assert f"golden/mlp/y.sketch.npy: {message}" in str(raised.value)


def test_a_golden_beside_one_that_is_computed(tree: Any) -> None:
    tree.edit(MLP, "outputs:", "golden: computed\noutputs:")
    (error,) = tree.errors()
    message = "golden/mlp/y.npy: is not read: the goldens of this workload are computed"
    assert error.startswith(f"{message} (matrix/workloads/mlp/workload.yaml:")
    (tree.path / "golden/mlp/y.npy").unlink()
    assert tree.load().workloads["mlp"].document.golden == "computed"


def record(tree: Any, name: str = "mlp") -> str:
    """Write what the golden of a workload is made from."""
    entry = tree.load().workloads[name]
    text = record_of(entry.document, entry.reference)
    tree.write(f"golden/{name}/{RECORD}", text)
    return text


def stale(tree: Any, *others: Path) -> list[str]:
    """The lines of the error that goldens give; none if they are up to date."""
    catalog = load([tree.path, *others])
    try:
        validate(catalog)
    except CatalogError as error:
        return str(error).split("\n")
    return []


@pytest.mark.parametrize(
    ("file", "old", "new", "line", "what"),
    [
        ("reference.py", "runs no code", "runs nothing", 1, "reference.py"),
        ("workload.yaml", "seed: 1", "seed: 2", 2, "inputs"),
        ("workload.yaml", "/ sqrt(K)", "/ K", 2, "inputs"),
        ("workload.yaml", "[B, K], dtype: f32", "[B, K], dtype: f64", 2, "inputs"),
        ("workload.yaml", "[B, K]", "[K, B]", 2, "inputs"),
        ("workload.yaml", "K: 32", "K: 33", 2, "inputs and outputs"),
        ("workload.yaml", "[B, 3]", "[B, 4]", 3, "outputs"),
        (
            "workload.yaml",
            "y: {shape: [B, 3], dtype: f32",
            "y: {shape: [B, 3], dtype: i32, compare: exact",
            3,
            "outputs",
        ),
    ],
)
def test_a_golden_of_another_reference_or_other_inputs(
    tree: Any, file: str, old: str, new: str, line: int, what: str
) -> None:
    record(tree)
    assert stale(tree) == []
    tree.edit(f"matrix/workloads/mlp/{file}", old, new)
    assert stale(tree) == [
        f"golden/mlp/{RECORD}:{line}:1: {what} of mlp changed since its goldens were written; "
        "run matrix golden update --write mlp"
    ]
    record(tree)
    assert stale(tree) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("description: a perceptron", "# A comment.\ndescription: another one"),
        ('uniform(-1, 1) / sqrt(K)"', 'uniform(-1, 1) / sqrt(K)" '),
        ("{shape: [B, K], dtype: f32,", "{dtype: f32, shape: [B, K],"),
        ("dynamic: [B]", "dynamic: [B]\nnumerics: {accumulator: f32}"),
        ("dtype: f32}\nabsent", "dtype: f32, nan: It is right.}\nabsent"),
    ],
)
def test_edits_that_change_no_golden(tree: Any, old: str, new: str) -> None:
    record(tree)
    tree.edit(MLP, old, new)
    assert stale(tree) == []


def test_a_golden_without_a_record(tree: Any, make_tree: Callable[..., Any]) -> None:
    """No golden passes by losing its record. Of another catalog, the command names the folder."""
    (missing,) = stale(tree)
    assert missing.startswith(
        f"golden/mlp/{RECORD}: is missing: it records from what the goldens beside it were computed; "
    )
    text = record(tree)
    tree.write(f"golden/mlp/{RECORD}", "")
    assert stale(tree)[0].startswith(f"golden/mlp/{RECORD}:1:1: reference.py and inputs and outputs of mlp changed")
    tree.write(f"golden/mlp/{RECORD}", f"{text}\n")
    assert len(stale(tree)) == 1
    tree.write(f"golden/mlp/{RECORD}", text)
    (tree.path / "golden/mlp/y.npy").unlink()
    assert stale(tree) == []
    own = {f"matrix/workloads/own/{name}": (tree.path / f"matrix/workloads/mlp/{name}").read_bytes()
           for name in ("workload.yaml", "reference.py")}  # fmt: skip
    other = make_tree("other", {**own, "golden/own/y.npy": ""})
    (line,) = stale(tree, other.path)
    assert line.startswith(f"{other.path}/golden/own/{RECORD}: is missing: ")
    assert line.endswith(f"; run matrix golden update --write own --catalog {other.path}")


def test_nan_is_of_floating_point(tree: Any) -> None:
    tree.edit(MLP, "  y: {shape: [B, 3], dtype: f32}", "  y: {shape: [B, 3], dtype: f32, nan: Roots of less than 0.}")
    assert tree.load().workloads["mlp"].document.outputs["y"].nan == "Roots of less than 0."
    tree.edit(MLP, "dtype: f32, nan", "dtype: i32, compare: exact, nan")
    (error,) = tree.errors()
    assert error.endswith("i32 has no NaN; leave 'nan' out")


def test_an_output_that_is_called_like_a_sketch(tree: Any) -> None:
    tree.edit(MLP, "  y: {shape: [B, 3]", "  y.sketch: {shape: [B, 3]")
    assert any("an output's name may not end in .sketch" in error for error in tree.errors())


def test_goldens_in_another_catalog_than_the_workload(tree: Any, make_tree: Callable[..., Any]) -> None:
    other = make_tree("other", {"golden/mlp/y.npy": ""})
    assert tree.errors(other.path) == [
        f"{other.path}/golden/mlp/y.npy: is not read: this catalog has no workload 'mlp'"
    ]


def test_a_source_that_two_frameworks_share_may_be_there(tree: Any) -> None:
    text = "description: x\nenvironment: torch\nemits: {linalg: pytorch.py}\n"
    tree.write("matrix/frameworks/iree/framework.yaml", text)
    tree.write("matrix/frameworks/iree/importer.py", "")
    tree.edit(MLP, "absent: {mlir:", "absent: {iree: not there, mlir:")
    assert "iree" in tree.load().frameworks
