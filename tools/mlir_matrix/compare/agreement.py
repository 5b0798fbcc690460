"""Compare several computations of one output with each other: find pairs that agree, and elements that differ most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlir_matrix.actions.contract import Action, Role
from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.census import plain
from mlir_matrix.actions.numerics.criteria import Criteria
from mlir_matrix.actions.numerics.dtypes import Array, Doubles
from mlir_matrix.actions.runtime.prepared import EXPECTED, INTERFACE, RESULTS
from mlir_matrix.actions.tools import judge
from mlir_matrix.compare.fast_path import gate

if TYPE_CHECKING:
    from mlir_matrix.actions.params import JudgedOutput, ProgramJudgeParams
    from mlir_matrix.compare.documents import ComparedOutput, DisputedElement, Pair

_SHOWN = 5
Files = Mapping[str, str | Path]
#: The bounds of a witness: those of the output, and the file with bounds of single elements, if there is one.
Bound = tuple["JudgedOutput", "str | Path | None"]
#: Converts a number to JSON. Its type is wider than that of the documents.
_plain: Any = plain


def unfit(path: str | Path, spec: JudgedOutput, *, golden: bool = False) -> str:
    """Return why a file is not an array of this output; empty if it is one."""
    try:
        array = dtypes.load_npy(str(path))
    except (OSError, ValueError, EOFError) as error:
        return f"{spec['name']} is not a readable .npy file: {dtypes.why_unreadable(error)}"
    expected = dtypes.golden_storage(spec["dtype"]) if golden else dtypes.STORAGE[spec["dtype"]]
    if (array.dtype, array.shape) == (expected, tuple(spec["shape"])) and array.size:
        return ""
    return f"{spec['name']} is {array.dtype} {list(array.shape)}, not {expected} {spec['shape']}"


def open_program(
    params: ProgramJudgeParams, bundles: Mapping[str, str | Path], folder: Path
) -> tuple[list[JudgedOutput], dict[str, str | Path]]:
    """Return the outputs of a program in a foreign form, and the files that its judge compares; nothing if it has none."""
    if INTERFACE not in bundles or EXPECTED not in bundles:
        return [], {}
    action = Action(params=params, inputs={name: str(path) for name, path in bundles.items()}, outputs={})
    results = {Role.ACTUAL: action.inputs[RESULTS]} if RESULTS in bundles else {}
    specs, files = judge.of_program(action, results, folder)
    return specs, dict(files)


def compare_all(spec: JudgedOutput, bounds: Mapping[str, Bound], files: Files, reference: str) -> ComparedOutput:
    """Compare the outputs of all witnesses, by name, in pairs. The witness ``reference`` has doubles.

    ``bounds``: the bounds of each witness. A pair may differ by the sum of its bounds.
    """
    arrays = {name: _load(path, spec, golden=name == reference) for name, path in files.items()}
    decoded = {name: each if name == reference else dtypes.decode(each, spec["dtype"]) for name, each in arrays.items()}
    pairs: list[Pair] = []
    # In a pair with the reference, the reference is the expected one.
    for one, other in combinations(sorted(arrays, key=lambda name: name == reference), 2):
        criteria = _criteria([bounds[name] for name in (one, other) if name in bounds], decoded[other])
        counts, _ = gate(arrays[one], arrays[other], spec["dtype"], criteria, golden=other == reference)
        pairs.append({"one": one, "other": other, "differ": counts.wrong, "max_abs": _plain(counts.max_abs)})
    own = next(iter(bounds.values()), (spec, None))
    atol, rtol = (0.0, 0.0) if spec["compare"] == "exact" else (spec["atol"], spec["rtol"])
    return {
        "name": spec["name"], "dtype": spec["dtype"], "shape": spec["shape"], "compare": spec["compare"],
        "atol": _plain(atol), "rtol": _plain(rtol),
        "own_bounds": own[1] is not None, "pairs": pairs,
        "elements": _disputed(decoded, own) if any(pair["differ"] for pair in pairs) else [],
    }  # fmt: skip


def _criteria(bounds: Sequence[Bound], expected: Array) -> Criteria:
    if any(spec["compare"] == "exact" for spec, _ in bounds):
        return Criteria()
    atol, rtol = (sum(spec[name] for spec, _ in bounds) for name in ("atol", "rtol"))
    ulps = sum(spec.get("max_ulp") or 0.0 for spec, _ in bounds) or None
    elements = any(path is not None for _, path in bounds)
    own = np.sum([_bound(each, expected) for each in bounds], axis=0).reshape(-1) if elements else None
    return Criteria(atol=atol, rtol=rtol, max_ulp=ulps, bounds=own)


def _bound(bound: Bound, expected: Array) -> Doubles:
    """Return the bound of each element: its own, or that by ``atol`` and ``rtol``."""
    spec, path = bound
    if spec["compare"] == "exact":
        return np.zeros(expected.shape)
    with np.errstate(all="ignore"):
        plain: Doubles = spec["atol"] + spec["rtol"] * np.abs(dtypes.numbers(expected))
    if path is None:
        return plain
    own = dtypes.load_npy(str(path))
    if spec["compare"] == "order-free" and own.ndim:
        own = judge.of_rows(own)
    return np.where(np.isfinite(own), own, plain)


def _load(path: str | Path, spec: JudgedOutput, *, golden: bool) -> Array:
    array = dtypes.load_npy(str(path))
    if spec["compare"] != "order-free" or not array.ndim:
        return array
    values = array if golden else dtypes.decode(array, spec["dtype"])
    return np.take_along_axis(array, np.argsort(values, axis=-1, kind="stable"), axis=-1)


def _disputed(decoded: Mapping[str, Array], own: Bound) -> list[DisputedElement]:
    """Return the elements with the largest differences between any two, as shares of their bounds."""
    first = next(iter(decoded.values()))
    share: Doubles = np.zeros(first.shape)
    with np.errstate(all="ignore"):
        for one, other in combinations(decoded.values(), 2):
            equal = (one == other) | ((one != one) & (other != other))  # noqa: PLR0124 - only NaN differs from itself
            apart = np.abs(dtypes.numbers(one) - dtypes.numbers(other))
            bound = _bound(own, other)
            worse = np.where(equal, 0.0, np.where(np.isnan(apart), np.inf, apart / np.maximum(bound, 1e-300)))
            share = np.maximum(share, worse)
    order = np.argsort(-share, axis=None, kind="stable")[:_SHOWN]
    return [
        {
            "index": dtypes.index_of(int(at), first.shape),
            "values": {name: _plain(values.reshape(-1)[at]) for name, values in decoded.items()},
        }
        for at in order
        if share.reshape(-1)[at] > 1
    ]
