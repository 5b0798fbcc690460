"""Memory that nothing has written: a program that reads it does not pass, whatever its golden is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy

from support.downstream import Downstream, npy
from support.workspace import Workspace

UNWRITTEN = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xi32> {
  %y = tensor.empty() : tensor<4xi32>
  return %y : tensor<4xi32>
}
"""
#: A maximum that drops NaN, over an accumulator that nothing has filled.
MAXIMUM = """\
#map = affine_map<(i) -> (i)>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %m = arith.maxnumf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def test_what_was_never_written_does_not_pass(workspace: Workspace, environments: Any, tmp_path: Path) -> None:
    """Under the first poison both give what their goldens have: 0xffffffff is -1, and NaN is dropped."""
    for name in ("mlir", "zig"):
        environments.require(name)
    catalog = Downstream(tmp_path / "catalog")
    document = "description: Luck.\ninputs:\n  x: {{shape: [4], dtype: f32, formula: iota()}}\noutputs:\n  y: {}\n"
    integer, number = "{shape: [4], dtype: i32, compare: exact}", "{shape: [4], dtype: f32}"
    catalog.workload("unwritten", document=document.format(integer), linalg=UNWRITTEN)
    catalog.workload("maximum", document=document.format(number), linalg=MAXIMUM)
    for name, golden in (("unwritten", numpy.full(4, -1, "i4")), ("maximum", numpy.arange(4.0))):
        catalog.write(f"golden/{name}/y.npy", npy(golden))
    report = workspace.run("mlir/linalg-loops/x86_64/{unwritten,maximum}", code=1, catalog=catalog.root)
    told = {test["workload"]: (test["outcome"], test["reason"]) for test in report.tests.values()}
    what = "elements of out/y.npy depend on memory that nothing has written: element 0 has the bits"
    assert told == {
        "unwritten": ("run-failed", f"result 0: 4 of 4 {what} ffffffff under one poison, 7b7b7b7b under another"),
        "maximum": ("run-failed", f"result 0: 2 of 4 {what} 00000000 under one poison, 7b7b7b7b under another"),
    }
