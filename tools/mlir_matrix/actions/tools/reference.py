"""Compute the expected outputs by the workload's ``reference.py``, in double, from the same inputs.

inputs   ``source``; ``arg-NAME``, as the ``inputs`` action stored them
outputs  ``expected-NAME``

The reference takes floating-point arguments as float64, already rounded to their dtype (large ones are converted on access,
:mod:`mlir_matrix.actions.numerics.lazy_array`), and others in their own dtype. It must return float64 for floating point, and the
output's own dtype otherwise. NaN is an error unless the workload allows it for the output (``nan``), and not all elements are NaN.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from mlir_matrix.actions.contract import Action, ActionFailed, Role, under_test
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.dtypes import Array
from mlir_matrix.actions.numerics.lazy_array import LazyDoubles
from mlir_matrix.actions.params import SignatureParams, Tensor
from mlir_matrix.actions.runtime.source import check_arguments


def run(action: Action[SignatureParams]) -> None:
    """Write every expected output. Exceptions of the reference pass through."""
    arguments = [argument(spec, action.inputs) for spec in action.params["inputs"]]
    reference = module_of(action.inputs["source"])["reference"]
    check_arguments(reference, action.params["inputs"])
    specs = action.params["outputs"]
    with under_test(any_frame=True):
        returned = reference(*arguments)
    for spec, array in zip(specs, check_results(specs, returned), strict=True):
        dtypes.save_npy(action.outputs[Role.EXPECTED.of(spec["name"])], array)


def argument(spec: Tensor, files: Mapping[str, str]) -> Array:
    """Return an input as the reference takes it. Raise ActionFailed for a file with another dtype or shape."""
    stored = dtypes.load_npy(files[Role.ARGUMENT.of(spec["name"])])
    if stored.dtype != dtypes.STORAGE[spec["dtype"]] or list(stored.shape) != list(spec["shape"]):
        found = f"{stored.dtype.str} {list(stored.shape)}"
        raise ActionFailed(f"the input {spec['name']} is {found}, not {spec['dtype']} {list(spec['shape'])}")
    if stored.nbytes > dtypes.MAPPED and spec["dtype"] in dtypes.FLOATS:
        return cast(Array, LazyDoubles(stored, spec["dtype"]))
    return dtypes.decode(stored, spec["dtype"])


def module_of(path: str, names: Mapping[str, object] = MappingProxyType({})) -> dict[str, Any]:
    """Run the source and return its global names. Tracebacks show it as ``reference.py``.

    ``names`` are defined before it runs.
    """
    source = Path(path).read_bytes()
    module = types.ModuleType("reference")
    module.__dict__.update(names)
    with under_test():
        exec(compile(source, "reference.py", "exec", dont_inherit=True), module.__dict__)
    if not callable(module.__dict__.get("reference")):
        raise ActionFailed("reference.py defines no function reference()")
    return module.__dict__


def as_tuple(returned: object) -> tuple[object, ...]:
    return returned if isinstance(returned, tuple) else (returned,)


def check_results(specs: Sequence[Tensor], returned: object) -> list[Array]:
    """Return all results as arrays. Raise ActionFailed if they differ from the declaration."""
    results = as_tuple(returned)
    if len(results) != len(specs):
        raise ActionFailed(f"reference() returns {len(results)} arrays, the workload has {len(specs)} outputs")
    return [_check(spec, result) for spec, result in zip(specs, results, strict=True)]


def _check(spec: Tensor, result: object) -> Array:
    name, dtype = spec["name"], dtypes.golden_storage(spec["dtype"])
    if not isinstance(result, (np.ndarray, np.generic)):
        raise ActionFailed(f"output {name}: reference() returns a {type(result).__name__}, not a NumPy array")
    array = np.asarray(result)
    if array.dtype != dtype:
        why = " (references compute in double)" if dtype.kind in "fc" else ""
        raise ActionFailed(f"output {name}: reference() returns {array.dtype}, not {dtype}{why}")
    if list(array.shape) != list(spec["shape"]):
        shapes = f"{list(array.shape)}, not {list(spec['shape'])}"
        raise ActionFailed(f"output {name}: reference() returns the shape {shapes}")
    count = int(np.count_nonzero(np.isnan(array))) if array.dtype.kind in "fc" else 0
    if count and (count == array.size or not spec.get("nan")):
        raise ActionFailed(f"output {name}: reference() returns NaN in {count} of {array.size} elements")
    return array
