"""Compute how far a correct program may be from the float64 reference, before any program runs.

Inputs and the outputs ``expected-NAME`` are those of :mod:`reference`. The outputs ``bound-NAME`` are float64, of the output's
shape, with no element below 0. A correct program computes what the reference does, in the output's dtype and in any order, with
operations and functions as exact as in :mod:`accuracy`: each element has ``|actual - expected| <= bound``. An infinite bound means
that nothing is known, because the dtype may overflow. Outputs of integers and booleans have the bound 0. Tolerances have no
influence.

The bound comes from the reference itself, run on arrays with error bounds (:mod:`error_bound`). If the reference is more careful
than programs are, ``reference.py`` defines ``forward_error(roundoff, *inputs)``, which returns an array, or a tuple with one for
each output. ``roundoff`` is the unit roundoff of the output's dtype (half its ``eps``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from mlir_matrix.actions.contract import Action, ActionFailed, Role, under_test
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.dtypes import Array, Doubles
from mlir_matrix.actions.numerics.formats import COMPLEX, FORMATS, Format
from mlir_matrix.actions.numerics.running_error import stand_ins
from mlir_matrix.actions.numerics.running_error.bounded import ErrorBound, UnknownBound, Whole, holds, lift, unknown
from mlir_matrix.actions.params import ErrorParams, Tensor
from mlir_matrix.actions.runtime.source import check_arguments
from mlir_matrix.actions.tools.reference import argument, as_tuple, check_results, module_of

_OWN = "forward_error"


def run(action: Action[ErrorParams]) -> None:
    """Write every expected output and its bound. Exceptions of the reference pass through."""
    arguments = [argument(spec, action.inputs) for spec in action.params["inputs"]]
    specs = action.params["outputs"]
    source = action.inputs["source"]
    likely = action.params.get("likely", False)
    expected, bounds = bounded_reference(source, arguments, specs, action.params["inputs"], likely=likely)
    for spec, right, bound in zip(specs, expected, bounds, strict=True):
        dtypes.save_npy(action.outputs[Role.EXPECTED.of(spec["name"])], right)
        dtypes.save_npy(action.outputs[Role.BOUND.of(spec["name"])], bound)


def bounded_reference(
    source: str, arguments: Sequence[Array], specs: Sequence[Tensor], inputs: Sequence[Tensor], *, likely: bool = False
) -> tuple[list[Array], list[Doubles]]:
    """Return the expected values and the error bound of each output. Raise ActionFailed.

    ``likely``: roundings of sums are independent, and an unknown operation has infinite bounds.
    """
    module = module_of(source)
    reference = module["reference"]
    check_arguments(reference, inputs)
    with under_test(any_frame=True):
        returned = reference(*arguments)
    expected = check_results(specs, returned)
    own = module.get(_OWN)
    if own is not None:
        # Its first parameter, the roundoff, may have any name.
        check_arguments(partial(own, 0.0), inputs)
    # One run for each dtype of an output, because programs compute in that dtype.
    runs: dict[str, tuple[object, ...]] = {}
    bounds: list[Doubles] = []
    for place, (spec, right) in enumerate(zip(specs, expected, strict=True)):
        dtype = COMPLEX.get(spec["dtype"], spec["dtype"])
        if dtype not in FORMATS:
            bounds.append(np.zeros(right.shape))
            continue
        if dtype not in runs:
            format = replace(FORMATS[dtype], likely=likely)
            runs[dtype] = _stated(own, arguments, dtype) if own else _derived(source, arguments, format, expected)
        bounds.append(_bound(spec, right, runs[dtype], place, len(specs)))
    return expected, bounds


def _stated(own: Callable[..., object], arguments: Sequence[Array], dtype: str) -> tuple[object, ...]:
    with under_test(any_frame=True):
        return as_tuple(own(FORMATS[dtype].u, *arguments))


def _derived(source: str, arguments: Sequence[Array], format: Format, expected: Sequence[Array]) -> tuple[object, ...]:
    """Return the errors of all results of the reference, run on arrays with errors."""
    try:
        return _with_errors(source, arguments, format, expected)
    except UnknownBound:
        if not format.likely:
            raise
        return tuple(np.full(right.shape, np.inf) for right in expected)


def _with_errors(
    source: str, arguments: Sequence[Array], format: Format, expected: Sequence[Array]
) -> tuple[object, ...]:
    if any(array.dtype.kind == "c" for array in (*arguments, *expected)):
        raise unknown("complex numbers")
    reference = module_of(source, stand_ins.names(format))["reference"]
    given = [lift(array.copy(), format) if array.dtype.kind == "f" else Whole(array, format) for array in arguments]
    with under_test(any_frame=True):
        results = as_tuple(reference(*given))
    return tuple(
        result.error if isinstance(result, ErrorBound) else np.zeros(np.asarray(result).shape) for result in results
    )


def _bound(spec: Tensor, right: Doubles, results: tuple[object, ...], place: int, outputs: int) -> Doubles:
    """Return one output's bound: at least the error of rounding the expected values to the dtype."""
    name, format = spec["name"], FORMATS[COMPLEX.get(spec["dtype"], spec["dtype"])]
    if len(results) != outputs:
        raise ActionFailed(f"{_OWN}() returns {len(results)} arrays, the workload has {outputs} outputs")
    bound = np.asarray(results[place])
    if bound.dtype != np.float64 or bound.shape != right.shape:
        found = f"{bound.dtype} {list(bound.shape)}"
        raise ActionFailed(f"output {name}: {_OWN}() returns {found}, not float64 {list(right.shape)}")
    if not (bound >= 0).all():
        raise ActionFailed(f"output {name}: {_OWN}() returns an invalid bound: NaN or less than 0")
    size = np.abs(right)
    with np.errstate(all="ignore"):
        bound = np.maximum(bound, np.where(holds(format, right.real) & holds(format, right.imag), 0.0, format.u * size))
        over = np.isfinite(right) & (size + bound > format.largest)
    return np.where(over, np.inf, bound)
