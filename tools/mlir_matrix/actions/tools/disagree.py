"""Judge the results of a program that a reduction made: whether they are wrong, and whether that shows anything.

inputs   ``arg-DRAW-NAME`` and ``actual-DRAW-NAME``; ``source``, the reference, or else ``other-DRAW-NAME``, what a good compiler
         gives, which counts as right within ``atol`` and ``rtol``
outputs  ``verdict``: JSON with ``comparable``, ``wrong``, ``ratio`` (the largest error by its bound), ``reason`` and ``outputs``,
         one for each output of each draw

The bound is that of :mod:`forward_error`. A program is not comparable if its reference raises, gives NaN or does what has no
known bound, or if all bounds are infinite or loose: above half of the range of the expected values and 0. No exception of a
reference is an error here, because a program without meaning has none.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlir_matrix.actions.contract import Action, ActionFailed, Role, write_json
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.census import plain
from mlir_matrix.actions.numerics.criteria import Criteria, compare_block
from mlir_matrix.actions.numerics.dtypes import STORAGE, Array, Doubles
from mlir_matrix.actions.params import DisagreeParams, Tensor
from mlir_matrix.actions.tools.forward_error import bounded_reference
from mlir_matrix.actions.tools.reference import argument


class _ShowsNothingError(Exception):
    """A program that cannot be judged; the message says why."""


def preload() -> None:
    """Judge once in the warm parent: the first time in a process takes 9 ms, each further one less than 1."""
    with tempfile.TemporaryDirectory() as folder:
        source, array = Path(folder, "reference.py"), Path(folder, "x.npy")
        source.write_text("import numpy as np\n\n\ndef reference(x):\n    return np.exp(x)\n", encoding="utf-8")
        dtypes.save_npy(str(array), np.ones(2, np.float32))
        spec: Tensor = {"name": "x", "shape": [2], "dtype": "f32", "dynamic": []}
        files = {"source": str(source), Role.ARGUMENT.of("x", 0): str(array), Role.ACTUAL.of("x", 0): str(array)}
        verdict_of({"inputs": [spec], "outputs": [spec], "draws": 1}, files)


def run(action: Action[DisagreeParams]) -> None:
    """Write the verdict. The action succeeds whatever the program gives."""
    write_json(action.outputs["verdict"], verdict_of(action.params, action.inputs))


def verdict_of(params: DisagreeParams, files: Mapping[str, str]) -> dict[str, Any]:
    """Return the verdict; ``files`` has the paths of the action's inputs by name."""
    outputs: list[dict[str, Any]] = []
    for draw in range(params["draws"]):
        try:
            outputs += _of_draw(params, files, draw)
        except _ShowsNothingError as error:
            return {"comparable": False, "wrong": False, "ratio": 0.0, "reason": f"draw {draw}: {error}", "outputs": []}
    judged = [each for each in outputs if each["comparable"]]
    if not judged:
        reason = outputs[0]["reason"] if outputs else "there are no outputs"
        return {"comparable": False, "wrong": False, "ratio": 0.0, "reason": reason, "outputs": outputs}
    worst = max(judged, key=lambda each: (each["wrong"], float(each["ratio"])))
    return {
        "comparable": True,
        "wrong": worst["wrong"] > 0,
        "ratio": worst["ratio"],
        "reason": worst["reason"],
        "outputs": outputs,
    }


def _of_draw(params: DisagreeParams, files: Mapping[str, str], draw: int) -> list[dict[str, Any]]:
    """Judge the outputs of a draw. Raise _ShowsNothingError."""
    actual = Role.ACTUAL.among(files, draw)
    stored = [_load(spec, actual[spec["name"]]) for spec in params["outputs"]]
    if "source" in files:
        paths = {Role.ARGUMENT.of(name): path for name, path in Role.ARGUMENT.among(files, draw).items()}
        arguments = [argument(spec, paths) for spec in params["inputs"]]
        expected, bounds = _reference(files["source"], arguments, params)
    else:
        other = Role.OTHER.among(files, draw)
        expected = [
            dtypes.decode(_load(spec, other[spec["name"]]), spec["dtype"]).astype(dtypes.golden_storage(spec["dtype"]))
            for spec in params["outputs"]
        ]
        bounds = [_allowed(right, params) for right in expected]
    if any(right.dtype.kind in "fc" and np.isnan(right).any() for right in expected):
        raise _ShowsNothingError("NaN is expected")
    return [
        {"name": spec["name"], "draw": draw, **_compared(spec["name"], each, right, bound, spec["dtype"])}
        for spec, each, right, bound in zip(params["outputs"], stored, expected, bounds, strict=True)
    ]


def _load(spec: Tensor, path: str) -> Array:
    array = dtypes.unsigned(dtypes.load_npy(path), STORAGE[spec["dtype"]])
    if array.dtype != STORAGE[spec["dtype"]] or list(array.shape) != spec["shape"] or not array.size:
        found = f"{array.dtype.str} {list(array.shape)}"
        raise _ShowsNothingError(f"the output {spec['name']} is {found}, not {spec['dtype']} {spec['shape']}")
    return array


def _reference(path: str, arguments: Sequence[Array], params: DisagreeParams) -> tuple[list[Array], list[Doubles]]:
    """Return what is right, and the bounds. Raise _ShowsNothingError."""
    try:
        with np.errstate(all="ignore"):
            return bounded_reference(path, arguments, params["outputs"], params["inputs"])
    except ActionFailed as error:
        raise _ShowsNothingError(error.reason) from None
    except Exception as error:  # noqa: BLE001 - the reference comes from a program that may have no meaning
        raise _ShowsNothingError(f"the reference raises {type(error).__name__}: {error}") from None


def _allowed(right: Array, params: DisagreeParams) -> Doubles:
    if right.dtype.kind != "f":
        return np.zeros(right.shape)
    # An infinity must be equal.
    allowed: Doubles = params.get("atol", 0.0) + params.get("rtol", 0.0) * np.abs(np.nan_to_num(right))
    return allowed


def _compared(name: str, stored: Array, right: Array, bound: Doubles, dtype: str) -> dict[str, Any]:
    """Return how many elements are outside of their bounds; those without a bound never are."""
    known = np.isfinite(bound).reshape(-1)
    finite = right[np.isfinite(right)].astype(np.float64)
    result: dict[str, Any] = {"comparable": False, "elements": int(known.sum()), "wrong": 0, "ratio": 0.0}
    if not known.any():
        return result | {"reason": f"{name}: the bound is infinite"}
    extent = float(finite.max(initial=0.0) - finite.min(initial=0.0))
    middle = float(np.median(bound.reshape(-1)[known]))
    if extent and middle > extent / 2:
        return result | {"reason": f"{name}: the bound {middle:.3g} is loose for values in a range of {extent:.3g}"}
    criteria = Criteria(bounds=bound.reshape(-1)[known])
    block = compare_block(0, stored.reshape(-1)[known], right.reshape(-1)[known], dtype, criteria)
    wrong, ratio = int(block.wrong.sum()), float(block.used.max())
    result |= {"comparable": True, "wrong": wrong, "ratio": plain(ratio)}
    if not wrong:
        return result | {"reason": f"{name}: all {known.sum()} elements are within their bounds"}
    place = int(np.argmax(np.where(block.wrong, block.used, -math.inf)))
    worst = (
        f"expected {plain(block.expected[place])}, actual {plain(block.actual[place])}, bound {block.bound[place]:.3g}"
    )
    return result | {"reason": f"{name}: {wrong} of {known.sum()} elements are wrong; the worst: {worst}"}
