"""Measure how large the elements of goldens are, which shows what relative bounds amount to.

inputs   ``golden-NAME``
outputs  ``magnitudes``: JSON, by NAME the number of ``elements``, and ``median`` and ``largest`` size of the finite ones, if any
"""

from __future__ import annotations

import numpy as np

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.params import NoParams
from mlir_matrix.actions.runtime.contract import Action, ActionFailed, write_json

_PREFIX = "golden-"


def run(action: Action[NoParams]) -> None:
    """Measure every golden. Raise ActionFailed for an unreadable one."""
    found = {}
    for name, path in sorted(action.inputs.items()):
        try:
            found[name.removeprefix(_PREFIX)] = measure(dtypes.load_npy(path))
        except (OSError, ValueError, EOFError) as error:
            what = dtypes.why_unreadable(error)
            raise ActionFailed(
                f"{name.removeprefix(_PREFIX)}: the golden is not a readable .npy file: {what}"
            ) from None
    write_json(action.outputs["magnitudes"], found)


def measure(array: dtypes.Array) -> dict[str, float]:
    """Return the number of elements, and sizes of the finite ones."""
    sizes = np.abs(array.astype(np.float64))
    finite = sizes[np.isfinite(sizes)]
    if not finite.size:
        return {"elements": array.size}
    return {"elements": array.size, "median": float(np.median(finite)), "largest": float(finite.max())}
