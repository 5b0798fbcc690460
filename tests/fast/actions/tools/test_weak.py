"""The tool that names trivial outputs: an entry for each output under each set of bounds, of goldens whole and sketched."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.numerics.trivial import ONES, ZEROS
from mlir_matrix.actions.tools import sketch, weak

SPEC: dict[str, Any] = {"name": "y", "shape": [8], "dtype": "f32", "compare": "numeric", "rtol": 0.0}


def test_every_set_of_bounds_has_its_own_answer(tmp_path: Path) -> None:
    expected = np.full(8, 0.25)
    expected[0] = 0.5
    specs = [{**SPEC, "atol": atol} for atol in (0.0, 0.5, 1.0)]
    with contextlib.chdir(tmp_path):
        np.save("whole.npy", expected)
        np.save("sketch.npy", sketch.sketch(expected, "f32", "numeric"))
        np.save("x.npy", np.float32(expected))
        found = []
        for inputs in ({"expected-y": "whole.npy", "arg-x": "x.npy"}, {"sketch-y": "sketch.npy"}):
            weak.run(Action(params={"outputs": specs}, inputs=inputs, outputs={"weak": "weak.json"}))
            found.append(json.loads(Path("weak.json").read_text())["outputs"])
    whole, sketched = found
    assert whole[0] == ["the input x"]
    assert (ZEROS in whole[1], ONES in whole[1], ONES in whole[2]) == (True, False, True)
    assert (sketched[0], ZEROS in sketched[1], ONES in sketched[1], ONES in sketched[2]) == ([], True, False, True)
