"""A table of 64 MiB through the whole chain: copied and checked in pieces, judged by what the reference gives in the same run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.downstream import Downstream
from support.workspace import Workspace, entry_of, results

WORKLOAD = """\
description: Four rows of a table.
dims: {V: 131072, E: 128}
golden: computed
inputs:
  i: {shape: [4], dtype: i32, formula: "integers(0, V)", seed: 1}
  w: {shape: [V, E], dtype: f32, formula: "uniform(-1, 1)", seed: 2}
outputs:
  y: {shape: [4, E], dtype: f32}
"""
SOURCE = """\
func.func @main(%i: tensor<4xi32>, %w: tensor<131072x128xf32>) -> tensor<4x128xf32> {
  %empty = tensor.empty() : tensor<4x128xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(s, e) -> (s)>, affine_map<(s, e) -> (s, e)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%i : tensor<4xi32>) outs(%empty : tensor<4x128xf32>) {
  ^bb0(%token: i32, %out: f32):
    %row = arith.index_cast %token : i32 to index
    %column = linalg.index 1 : index
    %element = tensor.extract %w[%row, %column] : tensor<131072x128xf32>
    linalg.yield %element : f32
  } -> tensor<4x128xf32>
  return %y : tensor<4x128xf32>
}
"""
REFERENCE = "def reference(i, w):\n    return w[i]\n"
TEST = "mlir/linalg-loops/x86_64/rows"


@pytest.fixture
def catalog(tmp_path: Path) -> Downstream:
    made = Downstream(tmp_path / "catalog")
    made.write("matrix/workloads/rows/workload.yaml", WORKLOAD)
    made.write("matrix/workloads/rows/linalg.mlir", SOURCE)
    made.write("matrix/workloads/rows/reference.py", REFERENCE)
    made.write("golden/rows/tolerances.yaml", "layers: [{atol: 0, rtol: 0, rationale: moved}]\n")
    return made


def test_a_large_input(fresh: Callable[[str], Workspace], catalog: Downstream) -> None:
    """The second run finds all of it; where a bit of the table was flipped meanwhile it is made anew before anything reads it."""
    workspace = fresh("home")
    assert workspace.run(TEST, catalog=catalog.root).outcomes == {TEST: "pass"}
    table = max(workspace.actions.glob("blobs/??/*"), key=lambda path: path.stat().st_size)
    assert table.stat().st_size == (64 << 20) + 128
    with table.open("r+b") as file:
        file.seek(40 << 20)
        file.write(b"spoilt")
    for path in results(workspace.actions):
        entry = entry_of(path)
        if entry["outcome"]["stage"] in ("run", "judge"):
            path.unlink()
    again = workspace.run(TEST, catalog=catalog.root)
    assert again.outcomes == {TEST: "pass"}
    assert any(name.startswith("inputs/rows-") for name in again.document["executed_actions"])


def test_a_reference_that_fails_is_nothing_to_be_expected(
    fresh: Callable[[str], Workspace], catalog: Downstream
) -> None:
    """Where the golden is computed, what cannot be computed is the catalog's fault, at the judge's stage."""
    catalog.write("matrix/workloads/rows/workload.yaml", WORKLOAD.replace("131072", "8"))
    catalog.write("matrix/workloads/rows/linalg.mlir", SOURCE.replace("131072", "8"))
    catalog.write("matrix/workloads/rows/reference.py", "def reference(i, w):\n    return w[i] / None\n")
    rule = "expect: [{tests: ['**'], outcome: mismatch, reason: r}]"
    catalog.write("matrix/suites/expecting.yaml", f"description: d\ninclude: ['{TEST}']\n{rule}\n")
    (found,) = fresh("home").run("expecting", code=2, catalog=catalog.root).document["tests"]
    assert (found["outcome"], found["stage"], found["expected"]) == ("infra-error", "judge", False)
    assert found["reason"].startswith(f"{catalog.root}/matrix/workloads/rows/reference.py:2: TypeError")
