"""Measure the sizes of the elements of goldens, from which follows how large relative bounds are.

inputs   ``golden-NAME``; or of a program in a foreign form ``interface`` and ``expected``
outputs  ``magnitudes``: JSON, by NAME the number of ``elements``, and ``median`` and ``largest`` size of the finite ones, if any;
         of such a program also ``dtype``, ``shape`` and, where elements have their own bounds, ``rationale`` and ``bound``:
         their sizes
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlir_matrix.actions.contract import Action, ActionFailed, Role, write_json
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.params import JudgedOutput, NoParams, ProgramJudgeParams
from mlir_matrix.actions.runtime.prepared import INTERFACE
from mlir_matrix.actions.tools import judge


def run(action: Action[NoParams | ProgramJudgeParams]) -> None:
    """Measure every golden. Raise ActionFailed for an unreadable one."""
    if INTERFACE in action.inputs:
        specs, files = judge.of_program(action, {})
        write_json(action.outputs["magnitudes"], {spec["name"]: _output(spec, files) for spec in specs})
        return
    found: dict[str, Any] = {}
    for name, path in sorted(Role.GOLDEN.among(action.inputs).items()):
        try:
            found[name] = measure(dtypes.load_npy(path))
        except (OSError, ValueError, EOFError) as error:
            what = dtypes.why_unreadable(error)
            raise ActionFailed(f"{name}: the golden is not a readable .npy file: {what}") from None
    write_json(action.outputs["magnitudes"], found)


def _output(spec: JudgedOutput, files: Mapping[str, str]) -> dict[str, object]:
    name = spec["name"]
    found: dict[str, object] = {"dtype": spec["dtype"], "shape": spec["shape"]}
    bound = Role.BOUND.of(name)
    if bound in files:
        found |= {"rationale": spec["rationale"], "bound": measure(dtypes.load_npy(files[bound]))}
    return found | measure(dtypes.load_npy(files[Role.EXPECTED.of(name)]))


def measure(array: dtypes.Array) -> dict[str, float]:
    """Return the number of elements, and sizes of the finite ones."""
    sizes = np.abs(dtypes.numbers(array))
    finite = sizes[np.isfinite(sizes)]
    if not finite.size:
        return {"elements": array.size}
    return {"elements": array.size, "median": float(np.median(finite)), "largest": float(finite.max())}
