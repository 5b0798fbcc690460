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
RELEASES = "matrix/suites/releases.yaml"
GENERAL = "golden/tolerances.yaml"
SPECIAL = "golden/mlp/tolerances.yaml"
SEGMENTS = "framework/pipeline/target/workload"


def many(key: str, count: int, more: str = "") -> str:
    """So many tensors more."""
    return "\n".join([f"{key}:", *(f"  a{index}: {{shape: [], dtype: f32{more}}}" for index in range(count)), ""])


@pytest.mark.parametrize(
    ("file", "old", "new", "error"),
    [
        (MLP, "[B, K]", "[B, k]", "5:18: there is no dimension 'k'; did you mean 'K'?"),
        (MLP, "[B, 3]", "[B, 0]", "7:18: a size of 0; sizes begin at 1"),
        (MLP, "B: 8", "B: -8", "2:8: the dimension 'B' is -8; sizes begin at 1"),
        (MLP, "{B: 8,", "{B: 8, a-b: 1,", "2:14: the dimension 'a-b' could not be used in a formula"),
        (MLP, "{B: 8,", "{B: 8, lambda: 1,", "2:14: the dimension 'lambda' could not be used in a formula"),
        (MLP, "{B: 8,", "{B: 8, sqrt: 1,", "2:14: the dimension 'sqrt' could not be used in a formula"),
        (MLP, "dynamic: [B]", "dynamic: [b]", "3:11: there is no dimension 'b'; did you mean 'B'?"),
        (MLP, "{B: 8, K: 32}\ndynamic: [B]", "{B: 8, K: 32, N: 1}\ndynamic: [N]",
         "3:11: the dimension 'N' is in no input's shape"),
        (MLP, "dtype: f32}\nabsent", "dtype: i32}\nabsent",
         "7:3: i32 is compared exactly or order-free, not numerically; write compare: exact"),
        (MLP, "absent: {mlir:", "absent: {mlr:", "8:10: there is no framework 'mlr'; did you mean 'mlir'?"),
        (MLP, "absent: {mlir:", "absent: {pytorch:", "8:10: 'pytorch' is declared absent, but pytorch.py exists"),
        (SMOKE, "[pytorch]", "[pytroch]", "3:27: there is no framework 'pytroch'; did you mean 'pytorch'?"),
        (SMOKE, "[pytorch]", "[jax*]", "3:27: no framework matches 'jax*'"),
        (SMOKE, "[pytorch]", "['{pytorch']", "3:27: '{pytorch' has a '{' without its '}'"),
        (SMOKE, "[pytorch]", "[]", "3:15: the axis 'framework' is empty; leave it out for all"),
        (SMOKE, "steps: [tile]", "steps: [tilt]", "4:9: there is no step with IR tests 'tilt'; did you mean 'tile'?"),
        (RELEASES, "product: {workload: [mlp]}", "steps: [tile, tilt]",
         "3:19: there is no step with IR tests 'tilt'; did you mean 'tile'?"),
        (RELEASES, "product: {workload: [mlp]}", "steps: [tile]\n    zip: {workload: [mlp]}",
         "4:5: a block has 'steps' or 'zip', not both; make two blocks"),
        (SMOKE, "pytorch/**", "pytroch/**",
         "5:11: 'pytroch/**' matches no test: there is no framework 'pytroch'; did you mean 'pytorch'?"),
        (SMOKE, "pytorch/**", "pytorch/pl?n/**", "5:11: 'pytorch/pl?n/**' matches no test: no pipeline matches 'pl?n'"),
        (SMOKE, "pytorch/**", "mlp", f"5:11: 'mlp' has 1 part, but a test is {SEGMENTS}; perhaps 'mlp/**'"),
        (SMOKE, "pytorch/**", "pytorch/tile/ir/basic",
         "5:11: 'pytorch/tile/ir/basic' matches no test: the catalog has no test with this combination"),
        (SMOKE, "mlir/tile/ir/basic", "mlir/tile/ir/basics",
         "7:14: 'mlir/tile/ir/basics' matches no test: there is no workload 'basics'; did you mean 'basic'?"),
        (SMOKE, "mlir/tile/ir/basic", "a/b/c/d/e", f"7:14: 'a/b/c/d/e' has 5 parts, but a test is {SEGMENTS}"),
        (SMOKE, "*/plain/*/mlp", "*/plain/*/mpl",
         "9:14: '*/plain/*/mpl' matches no test: there is no workload 'mpl'; did you mean 'mlp'?"),
        (RELEASES, "['18', 19.1.7]", "['18', '19', '20']", "4:31: llvm has no release '20'; known: 18.1.8, 19.1.7, 24.0.0-dev"),
        (RELEASES, "['18', 19.1.7]", "['18', 19.1.6]", "4:25: llvm has no release '19.1.6'; did you mean '19.1.7'?"),
        (RELEASES, "['18', 19.1.7]", "['18', '1']", "4:25: llvm has no release '1'; known: 18.1.8, 19.1.7, 24.0.0-dev"),
        (RELEASES, "['18', 19.1.7]", "['18', 19.1.7, '18', '19']",
         f"4:39: '19' is llvm 19.1.7, which is '19.1.7' at {RELEASES}:4:25; give it one name"),
        (RELEASES, "blocks:\n", "blocks:\n  - {pins: {llvm: ['19'], torch-mlir: ['20261001']}}\n",
         f"5:25: '19.1.7' is llvm 19.1.7, which is '19' at {RELEASES}:3:20; give it one name"),
        (RELEASES, "['18', 19.1.7]", "[]", "4:12: no release of llvm is listed"),
        (RELEASES, "{llvm:", "{lvm:", "4:12: there is no component 'lvm'; did you mean 'llvm'?"),
        (RELEASES, "['18', 19.1.7]", "['18', 19]",
         "4:25: 'blocks[0].pins.llvm[1]': expected a name, got the number 19; put it in quotes"),
        (RELEASES, "**@llvm=18*", "**@llvm", "6:14: '**@llvm' has no COMPONENT=RELEASE after its '@'"),
        (RELEASES, "**@llvm=18*", "**/mpl@llvm=18*",
         "6:14: '**/mpl@llvm=18*' matches no test: there is no workload 'mpl'; did you mean 'mlp'?"),
        (SMOKE, "outcome: mismatch", "outcome: skipped",
         "9:32: skipped cannot be expected: it depends on the machine, not on the suite"),
        (SMOKE, "[pytorch]", "[plain]", "3:27: there is no framework 'plain'; known: mlir, pytorch"),
        (SMOKE, "outcome: mismatch", "outcome: unsupported",
         "9:32: unsupported cannot be expected: it follows from the files and needs no expectation"),
        (SMOKE, "outcome: mismatch", "outcome: infra-error",
         "9:32: infra-error cannot be expected: it is not a result of the test"),
        (SMOKE, "steps: [tile]", "steps: [canonical]", "4:9: there is no step with IR tests 'canonical'; known: tile"),
        (SMOKE, "outcome: mismatch", "outcome: pass",
         "9:32: pass cannot be expected: it is expected of every test without an expectation"),
        (GENERAL, "'p*'", "'q*'", "3:26: no pipeline matches 'q*'"),
        (GENERAL, "pipeline: 'p*'", "target: [x86_64, arm]", "3:43: there is no target 'arm'; known: x86_64"),
        (GENERAL, "pipeline: 'p*'", "workload: [mpl]", "3:37: there is no workload 'mpl'; did you mean 'mlp'?"),
        (GENERAL, "pipeline: 'p*'", "framework: pytroch", "3:26: there is no framework 'pytroch'; did you mean 'pytorch'?"),
        (GENERAL, "rtol: 1e-6", "rtol: -1e-6", "2:15: 'rtol' is -1e-06; a bound is 0 or more"),
        (GENERAL, "atol: 0.0", "atol: sqrt(k)",
         "3:43: 'sqrt(k)', column 6: unknown name k (perhaps you meant K) (workload 'sums')"),
        (GENERAL, "atol: 0.0", "atol: 1 - K", "3:43: '1 - K', column 1: a tolerance cannot be -31.0 (workload 'sums')"),
        (SPECIAL, "{output: y}", "{output: z}", "1:19: there is no output 'z'; known: y"),
        (SPECIAL, "{output: y}", "{workload: mlp2}", "1:19: there is no workload 'mlp2'; did you mean 'mlp'?"),
    ],
)  # fmt: skip
def test_errors_of_workloads_and_suites(tree: Any, file: str, old: str, new: str, error: str) -> None:
    tree.edit(file, old, new)
    assert tree.errors() == [f"{file}:{error}"]


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


def test_tolerances_of_a_workload_that_is_not_there(tree: Any) -> None:
    tree.write("golden/mpl/tolerances.yaml", "layers: [{atol: 1, rtol: 0, rationale: x}]")
    assert tree.errors() == ["golden/mpl/tolerances.yaml:1:1: there is no workload 'mpl'; did you mean 'mlp'?"]


def test_a_golden_in_one_form(tree: Any) -> None:
    (tree.path / "golden/mlp/y.npy").rename(tree.path / "golden/mlp/y.sketch.npy")
    assert "mlp" in tree.load().workloads
    tree.write("golden/mlp/y.npy", "")
    assert tree.errors() == ["golden/mlp/y.sketch.npy: y.npy beside it is the same golden; remove one of them"]


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
