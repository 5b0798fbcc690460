"""Prepare a program by a reference in NumPy: inputs by formulas, expected outputs in double, and derived bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlir_matrix.actions.contract import Action
from mlir_matrix.actions.runtime.prepared import Expected, write_prepared

_REFERENCE = "reference.py"
_RATIONALE = "the forward error of the reference"


def write_referenced(
    action: Action[Any],
    program: str,
    reference: str,
    inputs: Sequence[Mapping[str, Any]],
    outputs: Sequence[Mapping[str, Any]],
) -> None:
    """Write the outputs of ``prepare.py``.

    ``program`` is its text, ``reference`` that of a function ``reference`` of the inputs. An input is a declaration with a
    ``formula`` and a ``seed``, to which the draw is added. Bounds are those of docs/tolerances.md. Raise ActionFailed.
    """
    import numpy

    from mlir_matrix.actions.numerics import dtypes
    from mlir_matrix.actions.tools.forward_error import bounded_reference
    from mlir_matrix.actions.tools.inputs import blocks

    Path(_REFERENCE).write_text(reference, encoding="utf-8")
    draw = int(action.params["draw"])
    arguments = []
    for each in inputs:
        parts = blocks(each["formula"], each["seed"] + draw * len(inputs), {}, each["shape"], dtype=each["dtype"])
        stored = numpy.concatenate(list(parts)).reshape(each["shape"])
        dtypes.save_npy(f"{each['name']}.npy", stored)
        arguments.append(dtypes.decode(stored, each["dtype"]))
    expected, bounds = bounded_reference(_REFERENCE, arguments, outputs, inputs)  # type: ignore[arg-type]
    wanted = []
    for each, right, bound in zip(outputs, expected, bounds, strict=True):
        dtypes.save_npy(f"expected-{each['name']}.npy", right)
        file = ""
        if bound.any():
            file = f"bound-{each['name']}.npy"
            dtypes.save_npy(file, bound)
        wanted.append(
            Expected(
                declared=each,
                file=f"expected-{each['name']}.npy",
                bound=file,
                rationale="the forward error of the reference",
            )
        )
    declared = [
        ({"name": each["name"], "shape": each["shape"], "dtype": each["dtype"], "dynamic": []}, f"{each['name']}.npy")
        for each in inputs
    ]
    write_prepared(action, program, declared, wanted)
