"""Judge a property: compare the outputs of one run with those of other runs, transformed as the property requires.

inputs   ``other-NAME``, and ``part0-NAME``, ``part1-NAME``, … of the run; for a program in a foreign form (``bounds`` in the
         params) ``interface``, ``expected`` and two bundles of results, ``other`` and ``part0``
outputs  ``verdict``, as the judge's. A comparison that proves nothing is a mismatch
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlir_matrix.actions.contract import PARTS, Action, Role, write_json
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.dtypes import ROUNDED, STORAGE, Array
from mlir_matrix.actions.outcomes import of_relation
from mlir_matrix.actions.params import JudgedOutput, Op, RelateParams
from mlir_matrix.actions.runtime.prepared import INTERFACE
from mlir_matrix.actions.tools import judge, transform


def run(action: Action[RelateParams]) -> None:
    """Write the verdict. The action succeeds even if the property does not hold."""
    params, inputs = action.params, action.inputs
    if INTERFACE in inputs:
        specs, inputs = judge.of_program(action, {role: inputs[role] for role in (Role.FIRST_PART, Role.OTHER)})
        params = {**params, "outputs": specs}
    write_json(action.outputs["verdict"], relate(params, inputs))


def relate(params: RelateParams, inputs: Mapping[str, str]) -> dict[str, Any]:
    """Return the verdict; ``inputs`` has the paths by name. Writes a file for each tensor that is compared."""
    specs = params["outputs"]
    if params["same"]:
        return _vacuous(specs, {spec["name"]: "both are one and the same run" for spec in specs}, params)
    empty: dict[str, str] = {}
    files: dict[str, str] = {}
    for number, spec in enumerate(specs):
        name, dtype = spec["name"], spec["dtype"]
        actual = _joined(params, inputs, name)
        other = _load(inputs[Role.OTHER.of(name)], dtype)
        if isinstance(actual, str) or isinstance(other, str):
            empty[name] = next(each for each in (actual, other) if isinstance(each, str))
            continue
        op = params["ops"].get(name)
        wanted = transform.expected(other, dtype, op)
        if why := _proves_nothing(wanted, other, dtype, op):
            empty[name] = why
        compared = {Role.ACTUAL: actual, Role.EXPECTED: wanted}
        bound = inputs.get(Role.BOUND.of(name))
        if bound is not None:
            # Each of the two runs may be off by this bound.
            compared[Role.BOUND] = 2 * dtypes.load_npy(bound)
        for role, array in compared.items():
            files[role.of(name)] = path = f"{role}-{number}.npy"
            dtypes.save_npy(path, array)
    if empty or not specs:
        return _vacuous(specs, empty, params)
    verdict = judge.judge(specs, files)
    return {**verdict, "reason": of_relation(params["relation"], verdict["outcome"], verdict["reason"])}


def _joined(params: RelateParams, inputs: Mapping[str, str], name: str) -> Array | str:
    """Return the output of a run, joined from its parts; or a sentence why it cannot be read."""
    parts = []
    for role in PARTS[: params["parts"]]:
        part = _load(inputs[role.of(name)], None)
        if isinstance(part, str):
            return part
        parts.append(part)
    if len(parts) == 1:
        return parts[0]
    if len({(part.dtype, part.ndim) for part in parts}) > 1 or parts[0].ndim <= params["join"][name]:
        return "the parts of the batch do not fit together"
    try:
        return np.concatenate(parts, axis=params["join"][name])
    except ValueError as error:
        return f"the parts of the batch do not fit together: {error}"


def _load(path: str, dtype: str | None) -> Array | str:
    try:
        array = dtypes.load_npy(path)
    except (OSError, ValueError, EOFError) as error:
        return f"not a readable .npy file: {dtypes.why_unreadable(error)}"
    if dtype is not None:
        array = dtypes.unsigned(array, STORAGE[dtype])
    if dtype is not None and array.dtype != STORAGE[dtype]:
        return f"the other run's output holds {array.dtype.str}, not {STORAGE[dtype].str}"
    return array


def _proves_nothing(wanted: Array, other: Array, dtype: str, op: Op | None) -> str:
    """Return why a comparison with these numbers cannot fail; empty if it can."""
    if not wanted.size:
        return "zero elements prove nothing"
    if dtype in ROUNDED and not np.isfinite(wanted).any():
        return "there is no finite number in it, which proves nothing"
    changes = op is not None and (op["kind"] != "scale" or op["factor"] != 1)
    if changes and transform.same(wanted, dtypes.decode(other, dtype)):
        return "the operation does not change it, which proves nothing"
    return ""


def _vacuous(specs: Sequence[JudgedOutput], why: Mapping[str, str], params: RelateParams) -> dict[str, Any]:
    """Return the verdict for a comparison that proves nothing. No suite can expect it."""
    outputs: list[dict[str, Any]] = [
        {**spec, "outcome": "mismatch", "measurable": False, "reason": f"{spec['name']}: {why[str(spec['name'])]}"}
        for spec in specs
        if spec["name"] in why
    ]
    reason = outputs[0]["reason"] if outputs else "nothing was compared: the workload has no outputs"
    return {
        "outcome": "mismatch",
        "reason": of_relation(params["relation"], "mismatch", reason),
        "outputs": outputs,
        "metrics": {},
    }
