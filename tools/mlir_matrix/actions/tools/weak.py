"""Name the trivial outputs that pass for goldens, under each set of bounds that applies in some cell.

params   ``outputs``: one entry for each output and set of bounds
inputs   ``expected-NAME`` or ``sketch-NAME``; ``arg-NAME``: inputs of the workload
outputs  ``weak``: JSON, the names for each entry (:mod:`trivial`)
"""

from __future__ import annotations

from mlir_matrix.actions.contract import Action, Role, write_json
from mlir_matrix.actions.numerics import dtypes, trivial
from mlir_matrix.actions.params import JudgedOutput, JudgeParams
from mlir_matrix.actions.tools import judge


def run(action: Action[JudgeParams]) -> None:
    """Write the names of the trivial outputs that pass."""
    others = judge.arguments(action.inputs)

    def passing(spec: JudgedOutput) -> list[str]:
        name, criteria = spec["name"], judge.criteria_of(spec)
        sketch = action.inputs.get(Role.SKETCH.of(name))
        if sketch is not None:
            return trivial.passing_sketch(dtypes.load_npy(sketch), spec["dtype"], criteria)
        return judge.weak(spec, dtypes.load_npy(action.inputs[Role.EXPECTED.of(name)]), criteria, others)

    write_json(action.outputs["weak"], {"outputs": [passing(spec) for spec in action.params["outputs"]]})
