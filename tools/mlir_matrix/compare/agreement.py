"""Compare several computations of one output with each other: which pairs agree, and on which elements they differ most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.census import plain
from mlir_matrix.actions.numerics.criteria import Criteria
from mlir_matrix.actions.numerics.dtypes import Array, Doubles
from mlir_matrix.compare.fast_path import gate

if TYPE_CHECKING:
    from mlir_matrix.actions.params import JudgedOutput
    from mlir_matrix.report.schemas.oracles import ComparedOutput, DisputedElement, Pair

_SHOWN = 5
#: A number as JSON has it, whose type is wider than that of the documents.
_plain: Any = plain


def unfit(path: str | Path, spec: JudgedOutput, *, golden: bool = False) -> str:
    """Return why a file is no array of this output; empty if it is one."""
    try:
        array = dtypes.load_npy(str(path))
    except (OSError, ValueError, EOFError) as error:
        return f"{spec['name']} is not a readable .npy file: {dtypes.why_unreadable(error)}"
    expected = dtypes.golden_storage(spec["dtype"]) if golden else dtypes.STORAGE[spec["dtype"]]
    if (array.dtype, array.shape) == (expected, tuple(spec["shape"])) and array.size:
        return ""
    return f"{spec['name']} is {array.dtype} {list(array.shape)}, not {expected} {spec['shape']}"


def compare_all(
    spec: JudgedOutput, bounds: Mapping[str, JudgedOutput], files: Mapping[str, str | Path], reference: str
) -> ComparedOutput:
    """Compare the output of all witnesses, by name, pair by pair; the one named ``reference`` has doubles.

    ``bounds`` has the tolerances of the witnesses. A pair may differ by the sum of its two.
    """
    arrays = {name: _load(path, spec, golden=name == reference) for name, path in files.items()}
    pairs: list[Pair] = []
    # Of a pair, the reference is the expected one.
    for one, other in combinations(sorted(arrays, key=lambda name: name == reference), 2):
        criteria = _criteria([bounds[name] for name in (one, other) if name in bounds])
        counts, _ = gate(arrays[one], arrays[other], spec["dtype"], criteria, golden=other == reference)
        pairs.append({"one": one, "other": other, "differ": counts.wrong, "max_abs": _plain(counts.max_abs)})
    own = _criteria([spec])
    return {
        "name": spec["name"], "dtype": spec["dtype"], "shape": spec["shape"], "compare": spec["compare"],
        "atol": _plain(own.atol), "rtol": _plain(own.rtol), "pairs": pairs,
        "elements": _disputed(arrays, spec, own, reference) if any(pair["differ"] for pair in pairs) else [],
    }  # fmt: skip


def _criteria(specs: Sequence[JudgedOutput]) -> Criteria:
    if any(spec["compare"] == "exact" for spec in specs):
        return Criteria()
    ulps = [spec.get("max_ulp") or 0.0 for spec in specs]
    return Criteria(
        atol=sum(spec["atol"] for spec in specs), rtol=sum(spec["rtol"] for spec in specs), max_ulp=sum(ulps) or None
    )


def _load(path: str | Path, spec: JudgedOutput, *, golden: bool) -> Array:
    array = dtypes.load_npy(str(path))
    if spec["compare"] != "order-free" or not array.ndim:
        return array
    values = array if golden else dtypes.decode(array, spec["dtype"])
    return np.take_along_axis(array, np.argsort(values, axis=-1, kind="stable"), axis=-1)


def _disputed(
    arrays: Mapping[str, Array], spec: JudgedOutput, criteria: Criteria, reference: str
) -> list[DisputedElement]:
    """Return the elements with the largest differences between any two, as shares of the tolerance."""
    decoded = {name: each if name == reference else dtypes.decode(each, spec["dtype"]) for name, each in arrays.items()}
    first = next(iter(decoded.values()))
    share: Doubles = np.zeros(first.shape)
    with np.errstate(all="ignore"):
        for one, other in combinations(decoded.values(), 2):
            equal = (one == other) | ((one != one) & (other != other))  # noqa: PLR0124 - only NaN differs from itself
            apart = np.abs(dtypes.numbers(one) - dtypes.numbers(other))
            bound = criteria.atol + criteria.rtol * np.abs(dtypes.numbers(other))
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
