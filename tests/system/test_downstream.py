"""A catalog of somebody else's, outside this repository: its own workload, step, pipeline, tolerances, golden and suite."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from support.downstream import AXPY
from support.workspace import REPOSITORY, ROOMS, Finished, Report, Workspace, new_home

FILES = {
    "matrix/workloads/axpy/workload.yaml": """\
description: z = 2x + y, on rows of an odd length.
dims: {R: 7, C: 33}
inputs:
  x: {shape: [R, C], dtype: f32, formula: "normal(0, 1)", seed: 11}
  y: {shape: [R, C], dtype: f32, formula: "uniform(-1, 1)", seed: 12}
outputs:
  z: {shape: [R, C], dtype: f32}
absent:
  jax: Nobody has written it.
  onnx: Nobody has written it.
""",
    "matrix/workloads/axpy/reference.py": "def reference(x, y):\n    return 2.0 * x + y\n",
    "matrix/workloads/axpy/pytorch.py": "def workload(x, y):\n    return 2.0 * x + y\n",
    "matrix/workloads/axpy/linalg.mlir": AXPY,
    "recipes/steps/swap-loops/step.yaml": """\
description: Exchange the loops of elementwise operators.
environment: mlir
accepts: [linalg]
gives: linalg
passes: func.func(linalg-generalize-named-ops),canonicalize{max-iterations=${rounds}},cse
parameters:
  rounds: {description: How often canonicalization may begin anew., default: 5}
""",
    "recipes/steps/swap-loops/tests/add.mlir": """\
// CHECK-LABEL: func.func @main
// CHECK: linalg.generic
// CHECK-NOT: linalg.add
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %empty = tensor.empty() : tensor<4xf32>
  %z = linalg.add ins(%x, %y : tensor<4xf32>, tensor<4xf32>) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
""",
    "recipes/pipelines/swapped-loops.yaml": """\
description: Our step first, then the steps of mlir-matrix.
entry:
  linalg: []
  torch: [torch-to-linalg]
steps:
  - {step: swap-loops, with: {rounds: 3}}
  - bufferize
  - linalg-to-loops
  - loops-to-llvm
  - {step: object, with: {opt-level: 1}}
""",
    "golden/axpy/tolerances.yaml": """\
layers:
  - atol: eps(f32)
    rtol: eps(f32)
    rationale: A product with 2 is exact; one addition is rounded.
""",
    "matrix/suites/ours.yaml": """\
description: What we care about.
blocks:
  - product:
      framework: [pytorch, mlir, jax]
      pipeline: [swapped-loops, linalg-vectorized]
      target: [x86_64, x86_64-v4, aarch64]
      workload: [axpy, matmul]
steps: [swap-loops]
""",
}
IR_TEST = "mlir/swap-loops/ir/add"
PASSES = {
    "pytorch/swapped-loops/x86_64/axpy", "pytorch/swapped-loops/x86_64/matmul", "pytorch/linalg-vectorized/x86_64/axpy",
    "pytorch/linalg-vectorized/x86_64/matmul", "mlir/swapped-loops/x86_64/axpy", "mlir/swapped-loops/x86_64/matmul",
    "mlir/linalg-vectorized/x86_64/axpy", "mlir/linalg-vectorized/x86_64/matmul", "jax/linalg-vectorized/x86_64/matmul",
    IR_TEST,
}  # fmt: skip


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Downstream:
    """Somebody with a checkout of ours, a catalog elsewhere, and folders in which nothing may be left behind."""

    def __init__(self, folder: Path) -> None:
        self.catalog = folder / "their project" / "conformance"
        for name, text in FILES.items():
            (self.catalog / name).parent.mkdir(parents=True, exist_ok=True)
            (self.catalog / name).write_text(text)
        self.checkout = folder / "checkout"
        for room in ROOMS:
            shutil.copytree(REPOSITORY / room, self.checkout / room)
        self.empty = [folder / name for name in ("cwd", "user", "temporary")]
        for each in self.empty:
            each.mkdir()
        cwd, user, temporary = map(str, self.empty)
        # pip asks for the version of rustc; where that is rustup's, it makes a folder in the home.
        self.workspace = Workspace(
            new_home(folder / "home"),
            root=self.checkout,
            more={"HOME": user, "TMPDIR": temporary, "PWD": cwd, "RUSTUP_HOME": str(folder / "rustup")},
        )

    def __call__(self, *arguments: str | Path) -> Finished:
        return self.workspace(*arguments, "--catalog", self.catalog, cwd=self.empty[0])


@pytest.fixture(scope="module")
def downstream(c_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Downstream:
    return Downstream(tmp_path_factory.mktemp("downstream"))


def test_from_nothing_to_a_pass(downstream: Downstream) -> None:
    before, checkout = contents(downstream.catalog), contents(downstream.checkout)

    missing = downstream("run", "mlir/swapped-loops/x86_64/axpy", "--quiet")
    assert missing.code == 2
    remedy = f"matrix golden update --write axpy --catalog {shlex.quote(str(downstream.catalog))}"
    assert f"the golden is missing; {remedy} makes it" in missing.stdout
    assert contents(downstream.catalog) == before

    dry = downstream("golden", "update", "axpy")
    assert dry.code == 1
    assert "axpy/z: is new" in dry.stdout
    assert f"nothing was written; {remedy} would\n" in dry.stderr
    assert contents(downstream.catalog) == before

    assert downstream("golden", "update", "--write", "axpy").code == 0
    made = contents(downstream.catalog)
    assert set(made) - set(before) == {"golden/axpy/z.npy", "golden/axpy/made-from.sha256"}
    assert np.load(downstream.catalog / "golden" / "axpy" / "z.npy").dtype == np.float64

    done = downstream("run", "ours", "--format", "json", "--quiet")
    assert done.code == 0, done.stderr + done.stdout
    report = Report(done)
    passes = {identifier for identifier, outcome in report.outcomes.items() if outcome == "pass"}
    assert {identifier for identifier in passes if "/x86_64/" in identifier or "/ir/" in identifier} == PASSES
    assert {re.sub(r"/[^/]*(?=/\w+$)", "/x86_64", each) for each in passes - {IR_TEST}} == PASSES - {IR_TEST}, (
        "targets alike"
    )
    unsupported = {key: test["reason"] for key, test in report.tests.items() if test["outcome"] == "unsupported"}
    assert "Nobody has written it" in unsupported["jax/linalg-vectorized/x86_64/axpy"]
    assert "swapped-loops takes linalg or torch" in unsupported["jax/swapped-loops/x86_64/matmul"]
    # A machine without AVX-512 skips the tests of such targets.
    skipped = {identifier for identifier, outcome in report.outcomes.items() if outcome == "skipped"}
    assert all("/x86_64-v" in identifier for identifier in skipped)
    assert set(report.outcomes) == passes | set(unsupported) | skipped

    assert contents(downstream.catalog) == made
    assert contents(downstream.checkout) == checkout
    for folder in downstream.empty:
        assert list(folder.iterdir()) == [], folder
    maybe = {"artifacts", "bazel", "kept-catalogs", "layers"}
    assert {path.name for path in downstream.workspace.home.iterdir()} - maybe == {
        "packages",
        "bytecode",
        "catalogs",
        "tool",
        "actions",
        "state",
    }


def test_their_files_are_named_in_explanations(downstream: Downstream) -> None:
    text = downstream("explain", "pytorch/swapped-loops/x86_64/axpy", "--suite", "ours").stdout
    places = re.findall(r"(\S*their project\S*|\S+)\.yaml:(\d+)", text)
    assert places
    for words in ("matrix/suites/ours.yaml:3", "recipes/pipelines/swapped-loops.yaml", "rounds = 3 (set at "):
        assert words in text
    assert "golden/axpy/tolerances.yaml:2" in text


def test_their_actions_are_told_from_ours_without_a_path(downstream: Downstream) -> None:
    document = downstream("plan", "ours", "--format", "json").document
    files = {
        (ref["catalog"], ref["file"])
        for action in document["actions"]
        for ref in action["inputs"].values()
        if "file" in ref
    }
    assert (1, "matrix/workloads/axpy/pytorch.py") in files
    assert (0, "matrix/workloads/matmul/pytorch.py") in files
    assert str(downstream.catalog) not in str(document["actions"])


def test_their_failure_can_be_repeated_from_anywhere(downstream: Downstream, tmp_path: Path) -> None:
    """The catalog's folder has a space in its name."""
    golden = downstream.catalog / "golden" / "axpy" / "z.npy"
    right = golden.read_bytes()
    np.save(golden, -np.load(golden))
    try:
        test = "mlir/swapped-loops/x86_64/axpy"
        assert downstream("run", test, "--quiet").code == 1
        script = downstream.workspace.failure(test) / "repeat.sh"
        done = subprocess.run(
            ["sh", str(script)], cwd="/", env={**os.environ, **downstream.workspace.env},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    finally:
        golden.write_bytes(right)
    assert done.returncode == 1, done.stderr
    assert f"mismatch {test}" in done.stdout


def test_a_name_that_is_taken_is_refused(downstream: Downstream, tmp_path: Path) -> None:
    shutil.copytree(downstream.catalog, tmp_path / "other")
    (tmp_path / "other" / "matrix" / "workloads" / "axpy").rename(
        tmp_path / "other" / "matrix" / "workloads" / "matmul"
    )
    done = downstream.workspace("plan", "--catalog", tmp_path / "other")
    assert done.code == 2
    assert "matmul" in done.stderr


def test_two_catalogs_of_theirs(downstream: Downstream, tmp_path: Path) -> None:
    """A second one may use what the first one has."""
    suite = tmp_path / "more" / "matrix" / "suites" / "both.yaml"
    suite.parent.mkdir(parents=True)
    suite.write_text("description: Theirs too.\ninclude: ['mlir/swapped-loops/x86_64/axpy']\n")
    done = downstream("run", "both", "--catalog", tmp_path / "more", "--format", "json", "--quiet")
    assert done.code == 0, done.stderr
    assert Report(done).outcomes == {"mlir/swapped-loops/x86_64/axpy": "pass"}
