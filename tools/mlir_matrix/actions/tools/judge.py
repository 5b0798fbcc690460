"""Compare the outputs of a kernel with goldens. No output passes without a comparison.

inputs   ``actual-NAME``, and ``expected-NAME`` or the ``sketch-NAME`` of a large golden (:mod:`sketch`); ``arg-NAME``: inputs of
         the workload that are like an output
outputs  ``verdict``: JSON with ``outcome``, ``reason``, ``outputs`` (each with its census) and ``metrics``

A missing, empty, misshapen or unreadable output is a mismatch. If the golden is unusable, the output is not ``measurable``: an
infra-error, because nothing under test failed. An output that passes is ``weak`` if a trivial one would pass too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from mlir_matrix.actions.contract import Action, Role, write_json
from mlir_matrix.actions.numerics import dtypes, trivial
from mlir_matrix.actions.numerics.census import CensusCounter, plain
from mlir_matrix.actions.numerics.criteria import Criteria
from mlir_matrix.actions.numerics.diagnosis import diagnose
from mlir_matrix.actions.numerics.dtypes import STORAGE, Array, Doubles
from mlir_matrix.actions.numerics.sketch_judge import SketchError, judge_by_sketch
from mlir_matrix.actions.params import Bounds, JudgedOutput, JudgeParams
from mlir_matrix.actions.runtime.prepared import ABOUT, EXPECTED, INTERFACE, OWN, RESULTS, interface, unpack

_GOLDEN = "the golden"
#: Bounds of integers and booleans.
_EXACT = Bounds(
    atol=0.0, rtol=0.0, atol_text="0", rtol_text="0", layer="", rationale="Integers and booleans are exact."
)
_METRICS = ("error_used", "max_abs", "max_rel", "max_ulp")


class _UnfitError(Exception):
    """An output that cannot be compared."""


class _NoMeasureError(_UnfitError):
    """The golden is unusable, whatever the kernel computed: an error of the catalog."""


def run(action: Action[JudgeParams]) -> None:
    """Write the verdict. A mismatch is a verdict, not a failure of the action."""
    specs, files = action.params["outputs"], action.inputs
    if INTERFACE in files:
        specs, files = of_program(action, {Role.ACTUAL: files[RESULTS]})
    verdict = judge(specs, files)
    write_json(action.outputs["verdict"], verdict)


def of_program(
    action: Action[Any], results: Mapping[Role, str], folder: Path = Path("opened")
) -> tuple[list[JudgedOutput], dict[str, str]]:
    """Return the outputs that a program's own code declares, with their bounds, and the files of its results.

    ``results``: bundles of tensors, by their role.
    """
    files = unpack(action.inputs[EXPECTED], folder / EXPECTED)
    for role, bundle in results.items():
        files |= {role.of(name): path for name, path in unpack(bundle, folder / role).items()}
    about = json.loads(Path(files.pop(ABOUT)).read_text(encoding="utf-8"))
    return [_spec(action.params["bounds"], declared, about, files) for declared in interface(action)["outputs"]], files


def _spec(
    bounds: Mapping[str, Bounds], declared: Mapping[str, Any], about: Mapping[str, Any], files: dict[str, str]
) -> JudgedOutput:
    name, dtype = declared["name"], declared["dtype"]
    shape = list(dtypes.load_npy(files[Role.EXPECTED.of(name)]).shape)
    compare = "numeric" if dtype in bounds else "exact"
    own = bounds.get(dtype, _EXACT)
    spec = cast("JudgedOutput", {"name": name, "dtype": dtype, "shape": shape, "compare": compare, **own})
    if not spec.get("derived"):
        files.pop(Role.BOUND.of(name), None)
    elif Role.BOUND.of(name) in files:
        spec["atol_text"] = spec["rtol_text"] = OWN
        spec["rationale"] = about[name]["rationale"]
    return spec


def judge(specs: Sequence[JudgedOutput], files: Mapping[str, str]) -> dict[str, Any]:
    """Return the verdict on all outputs; ``files`` has the paths of the action's inputs by name."""
    outputs = [_judge_output(spec, files) for spec in specs]
    outputs.extend(_strangers({spec["name"] for spec in specs}, files))
    # An unusable golden decides only if no output is wrong.
    wrong = sorted(
        (each for each in outputs if each["outcome"] != "pass"), key=lambda each: each["outcome"] != "mismatch"
    )
    if not specs:
        reason = "nothing was compared: the workload has no outputs"
        return {"outcome": "mismatch", "reason": reason, "outputs": outputs, "metrics": {}}
    more = f" (and {len(wrong) - 1} more of {len(outputs)} outputs)" if len(wrong) > 1 else ""
    return {
        "outcome": wrong[0]["outcome"] if wrong else "pass",
        "reason": wrong[0]["reason"] + more if wrong else _all_right(outputs),
        "outputs": outputs,
        "metrics": _metrics(outputs),
    }


def _all_right(outputs: list[dict[str, Any]]) -> str:
    elements = sum(output["elements"] for output in outputs)
    used = _largest(outputs, "error_used")
    return f"all {elements} elements are right; the worst error takes {100 * float(used):.3g} % of its bound"


def _metrics(outputs: list[dict[str, Any]]) -> dict[str, Any]:
    counted = [output for output in outputs if "error_used" in output]
    metrics: dict[str, Any] = {name: _largest(counted, name) for name in _METRICS if counted}
    return metrics | {name: sum(output.get(name, 0) for output in counted) for name in ("elements", "wrong")}


def _largest(outputs: list[dict[str, Any]], name: str) -> int | float | str | bool:
    return plain(max(float(output[name]) for output in outputs))


def _strangers(known: set[str], files: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return outputs with a file and without a specification."""
    found = []
    for role, what in (
        (Role.ACTUAL, "the kernel has an output"),
        (Role.EXPECTED, "there is a golden"),
        (Role.SKETCH, "there is a golden"),
    ):
        for name in sorted(role.among(files)):
            if name not in known:
                reason = f"{name}: {what} that the workload does not declare"
                found.append({"name": name, "outcome": "mismatch", "reason": reason})
    return found


def _judge_output(spec: JudgedOutput, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the specification of an output with its outcome, reason and census."""
    name, dtype, shape = spec["name"], spec["dtype"], tuple(spec["shape"])
    try:
        criteria = criteria_of(spec)
        if Role.SKETCH.of(name) in files:
            return {**_told(spec), **_judge_sketched(spec, files, criteria)}
        expected = _load(files, Role.EXPECTED.of(name), _GOLDEN, shape, dtypes.golden_storage(dtype))
        criteria = own_criteria(criteria, spec, files)
        actual = _load(files, Role.ACTUAL.of(name), "the output", shape, STORAGE[dtype])
    except _UnfitError as error:
        bounds: dict[str, Any] = {key: plain(spec[key]) for key in ("atol", "rtol") if key in spec}
        unusable = isinstance(error, _NoMeasureError)
        outcome = {"outcome": "infra-error", "measurable": False} if unusable else {"outcome": "mismatch"}
        return {**_told(spec), **bounds, **outcome, "reason": f"{name}: {error}"}
    if spec["compare"] == "order-free" and shape:
        actual, expected = _sorted(actual, dtype), np.sort(expected, axis=-1)
        if criteria.bounds is not None:
            criteria = replace(criteria, bounds=of_rows(criteria.bounds.reshape(shape)).reshape(-1))
    result = _compared(actual, expected, spec, criteria)
    names = weak(spec, expected, criteria, arguments(files)) if result["outcome"] == "pass" else []
    return result | ({"weak": names} if names else {})


def own_criteria(criteria: Criteria, spec: JudgedOutput, files: Mapping[str, str]) -> Criteria:
    """Return criteria with the bounds of single elements, if there is a file with these; else ``criteria``."""
    name = Role.BOUND.of(spec["name"])
    if name not in files:
        return criteria
    return replace(criteria, bounds=_load(files, name, "the bound", tuple(spec["shape"]), STORAGE["f64"]).reshape(-1))


def of_rows(bounds: Doubles) -> Doubles:
    """Return the bounds of sorted elements. Each may have come from any place in its row, so all get the largest."""
    return np.broadcast_to(bounds.max(axis=-1, keepdims=True), bounds.shape)


def weak(spec: JudgedOutput, expected: Array, criteria: Criteria, others: Mapping[str, Array]) -> list[str]:
    """Return the trivial outputs that pass for a golden; ``others`` are more of them, by name, as stored (:mod:`trivial`)."""
    dtype = spec["dtype"]
    if spec["compare"] == "order-free" and expected.ndim:
        expected = np.sort(expected, axis=-1)
        fit = {name: stored for name, stored in others.items() if stored.shape == expected.shape}
        others = {name: _sorted(stored, dtype) for name, stored in fit.items()}
    return trivial.passing(expected, dtype, criteria, others)


def arguments(files: Mapping[str, str]) -> dict[str, Array]:
    """Load the workload's inputs that are among the files."""
    return {f"the input {name}": dtypes.load_npy(path) for name, path in Role.ARGUMENT.among(files).items()}


def _compared(actual: Array, expected: Array, spec: JudgedOutput, criteria: Criteria) -> dict[str, Any]:
    census = CensusCounter(expected.shape, spec["dtype"], criteria=criteria)
    census.add(actual, expected)
    result: dict[str, Any] = {**_told(spec), **census.result(), "outcome": "mismatch" if census.wrong else "pass"}
    if not census.wrong:
        return result | {"reason": "equal" if census.error_used == 0 else "within the bound"}
    looks = diagnose(actual, expected, spec["dtype"], criteria) if spec["compare"] != "order-free" else ""
    result = result | ({"looks": looks} if looks else {})
    if census.wrong_by_layer and spec["compare"] == "numeric":
        result["wrong_by_layer"] = census.wrong_by_layer
    return result | {"reason": _explain(result)}


def _told(spec: JudgedOutput) -> dict[str, Any]:
    """Return the specification as results show it: ``max_ulp`` is the measured distance, ``ulp_bound`` its bound."""
    renamed = {"max_ulp": "ulp_bound", "max_ulp_text": "ulp_bound_text"}
    return {renamed.get(key, key): value for key, value in spec.items()}


def _judge_sketched(spec: JudgedOutput, files: Mapping[str, str], criteria: Criteria) -> dict[str, Any]:
    """Judge by a sketch, which finds wrong blocks instead of wrong elements."""
    name, shape = spec["name"], tuple(spec["shape"])
    rows = _load(files, Role.SKETCH.of(name), _GOLDEN, None, STORAGE["f64"])
    actual = _load(files, Role.ACTUAL.of(name), "the output", shape, STORAGE[spec["dtype"]])
    if spec["compare"] == "order-free" and shape:
        actual = _sorted(actual, spec["dtype"])
    try:
        result = judge_by_sketch(spec, actual, rows, criteria)
    except SketchError as error:
        raise _NoMeasureError(f"{_GOLDEN} {error}; matrix golden update --write replaces it") from None
    names = trivial.passing_sketch(rows, spec["dtype"], criteria) if result["outcome"] == "pass" else []
    return result | ({"weak": names} if names else {})


def criteria_of(spec: JudgedOutput) -> Criteria:
    """Return the criteria of an output. Raise an error for invalid bounds."""
    if spec["compare"] == "exact":
        return Criteria()
    atol, rtol, ulp = float(spec["atol"]), float(spec["rtol"]), spec.get("max_ulp")
    if not all(math.isfinite(bound) and bound >= 0 for bound in (atol, rtol, float(ulp or 0))):
        ulps = "" if ulp is None else f", max_ulp={ulp!r}"
        raise _NoMeasureError(f"the tolerance atol={atol!r}, rtol={rtol!r}{ulps} is not a bound")
    return Criteria(atol=atol, rtol=rtol, max_ulp=None if ulp is None else float(ulp))


def _load(
    files: Mapping[str, str], key: str, what: str, shape: tuple[int, ...] | None, dtype: np.dtype[np.generic]
) -> Array:
    """Return the array of a file. It must have this shape (None: any), this dtype and at least one element."""
    remedy = "; matrix golden update --write makes it" if what == _GOLDEN else ""
    unfit = _NoMeasureError if what == _GOLDEN else _UnfitError
    if key not in files:
        raise unfit(f"{what} is missing{remedy}")
    try:
        array = dtypes.load_npy(files[key])
    except FileNotFoundError:
        raise unfit(f"{what} is missing{remedy}") from None
    except (OSError, ValueError, EOFError) as error:
        raise unfit(f"{what} is not a readable .npy file: {dtypes.why_unreadable(error)}") from None
    array = dtypes.unsigned(array, dtype)
    if array.dtype != dtype:
        raise unfit(f"{what} holds {array.dtype.str}, not {dtype.str}")
    if shape is not None and array.shape != shape:
        raise unfit(f"{what} has the shape {list(array.shape)}, not {list(shape)}")
    if not array.size:
        raise unfit(f"{what} is empty: zero elements prove nothing")
    return array


def _sorted(stored: Array, dtype: str) -> Array:
    """Sort along the last axis, NaN last; bf16 by value, not by bits."""
    if dtype != "bf16":
        return np.sort(stored, axis=-1)
    order = np.argsort(dtypes.decode(stored, dtype), axis=-1, kind="stable")
    return np.take_along_axis(stored, order, axis=-1)


def _explain(output: dict[str, Any]) -> str:
    """Return one sentence: how many elements are wrong, and the worst of them."""
    worst = output["worst"][0]
    share = f"{output['wrong']} of {output['elements']} elements ({output['wrong_percent']:.3g} %) are wrong"
    if output.get("wrong_by_layer"):
        share += f", {output['wrong_by_layer']} of them without a derived bound"
    order = " after sorting" if output["compare"] == "order-free" else ""
    place = f"at {worst['index']}{order}: expected {worst['expected']}, actual {worst['actual']}"
    if output["compare"] == "exact":
        return f"{output['name']}: {share}; worst {place}, and they must be equal"
    error = "" if worst["abs"] == "nan" else f", off by {float(worst['abs']):.3g}"
    bound = f"bound {float(worst['bound']):.3g} "
    # With a bound for each element, the reason depends on the element.
    bound += (
        f"({output['rationale']})" if output.get("atol_text") == OWN else f"from {output.get('layer') or 'no layer'}"
    )
    return f"{output['name']}: {share}; worst {place}{error}, {bound}"
