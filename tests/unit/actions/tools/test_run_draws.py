"""Kernels that are called on several draws: each draw has its own outputs, and a failure of one is no other's."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy

from mlir_matrix.actions.runtime.contract import Action
from mlir_matrix.actions.tools import run_draws

#: Doubles its argument; writes outside of its result where that begins with 7.
KERNEL = """
ENTRY(M1 *r, M1 *x) {
  *r = take1(4, x->size[0]);
  for (i64 i = 0; i < x->size[0] + (AT(float, x, 0) == 7 ? 1 : 0); i++) AT(float, r, i) = 2 * AT(float, x, i < 2 ? i : 0);
}
"""


def test_each_draw_is_a_call_of_its_own(bench: Any) -> None:
    kernel = bench.link(bench.compile(KERNEL))
    inputs = {"kernel": kernel.name}
    for draw, values in enumerate(([1, 2], [7, 2], [3, 4])):
        numpy.save(bench.folder / f"{draw}.npy", numpy.float32(values))
        inputs[f"arg-{draw}-x"] = f"{draw}.npy"
    tensor = {"dtype": "f32", "shape": [2]}
    params = {"arguments": [{"name": "x", **tensor}], "results": [{"name": "y", **tensor}], "draws": [0, 1, 2]}
    outputs = {f"out-{draw}-y": f"y{draw}.npy" for draw in range(3)} | {"failures": "failures.json"}
    with contextlib.chdir(bench.folder):
        run_draws.run(Action(params=params, inputs=inputs, outputs=outputs))
    failures = json.loads((bench.folder / "failures.json").read_text())
    assert list(failures) == ["1"]
    assert failures["1"].startswith("run-failed: ")
    assert numpy.load(bench.folder / "y0.npy").tolist() == [2, 4]
    assert (bench.folder / "y1.npy").read_bytes() == b""
    assert numpy.load(bench.folder / "y2.npy").tolist() == [6, 8]
