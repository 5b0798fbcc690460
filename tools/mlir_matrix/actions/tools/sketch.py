"""Sketch an expected output that is too large to keep, so that outputs can still be compared with it.

inputs   ``expected-NAME``
outputs  ``sketch-NAME``: as of :mod:`mlir_matrix.actions.numerics.sketch`
"""

from __future__ import annotations

import numpy as np

from mlir_matrix.actions.contract import Action, ActionFailed, Role
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.sketch import sketch
from mlir_matrix.actions.params import SketchParams


def run(action: Action[SketchParams]) -> None:
    """Write the sketch of each expected output."""
    for spec in action.params["outputs"]:
        name, dtype = spec["name"], spec["dtype"]
        expected = dtypes.load_npy(action.inputs[Role.EXPECTED.of(name)])
        if list(expected.shape) != list(spec["shape"]) or expected.dtype != dtypes.golden_storage(dtype):
            found = f"{expected.dtype} {list(expected.shape)}"
            raise ActionFailed(f"output {name}: the expected array is {found}, not {dtype} {list(spec['shape'])}")
        if spec["compare"] == "order-free" and expected.ndim:
            expected = np.sort(expected, axis=-1)
        dtypes.save_npy(action.outputs[Role.SKETCH.of(name)], sketch(expected, dtype, spec["compare"]))
