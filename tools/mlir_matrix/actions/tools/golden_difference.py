"""Compare a new golden with the stored one, in numbers.

inputs   ``source`` and ``arg-NAME`` as for ``reference``; ``new-NAME``, and ``old-NAME`` where there is one
outputs  ``differences``: JSON, an entry for each output that has an old golden

An entry is ``{"changed": a sentence}`` for goldens that cannot be compared. Else it has ``elements``, ``differ``, and for the
largest absolute difference ``abs``, ``rel`` (relative to the old golden), ``index``, ``old`` and ``new``, which are null if none
differs. Of sketches, only the kept elements are compared; of all others, ``differing_blocks`` counts the blocks that differ, and
``norm`` is the Euclidean norm of the difference by their projections.

If elements differ, ``rounding`` is the largest difference as a share of what rounding in double explains. Up to 1, two CPUs or
releases of NumPy may give both goldens. The bound is twice that of :mod:`forward_error` for programs in double, because each
golden may be that far from the exact value. It is null if no bound is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlir_matrix.actions.contract import Action, Role, write_json
from mlir_matrix.actions.numerics import dtypes, sketch
from mlir_matrix.actions.numerics.census import plain
from mlir_matrix.actions.numerics.dtypes import Array, Doubles
from mlir_matrix.actions.numerics.formats import COMPLEX, FORMATS
from mlir_matrix.actions.params import DifferenceOutput, DifferenceParams
from mlir_matrix.actions.tools.forward_error import bounded_reference
from mlir_matrix.actions.tools.reference import argument

#: Pairwise sums of a block's 4096 elements round 12 times in each of two sketches, each time by 2**-53 of the sum.
_SUMMED = 2.0**-48


def run(action: Action[DifferenceParams]) -> None:
    """Compare the goldens and write the differences."""
    found = {}
    for spec in action.params["outputs"]:
        name = spec["name"]
        old = action.inputs.get(Role.OLD.of(name))
        if old is not None:
            found[name] = compare(old, action.inputs[Role.NEW.of(name)], sketched=spec["sketch"])
    if any(map(_differs, found.values())):
        _add_rounding(action, found)
    write_json(action.outputs["differences"], found)


def _differs(entry: dict[str, Any]) -> bool:
    """Return whether numbers differ in arrays that could be compared."""
    return bool(entry.get("differ") or entry.get("differing_blocks"))


def _add_rounding(action: Action[DifferenceParams], found: dict[str, dict[str, Any]]) -> None:
    bounds = _bounds(action)
    for place, spec in enumerate(action.params["outputs"]):
        entry = found.get(spec["name"], {})
        if _differs(entry):
            old, new = (dtypes.load_npy(action.inputs[role.of(spec["name"])]) for role in (Role.OLD, Role.NEW))
            share = _sketched_share if spec["sketch"] else _share
            entry["rounding"] = bounds and plain(share(old, new, _sorted(bounds[place], spec)))


def _bounds(action: Action[DifferenceParams]) -> list[Doubles] | None:
    """Return how far two runs of the reference may differ, by output; None if no bound follows."""
    arguments = [argument(spec, action.inputs) for spec in action.params["inputs"]]
    doubles = dict.fromkeys(FORMATS, "f64") | dict.fromkeys(COMPLEX, "c128")
    specs = [spec | {"dtype": doubles.get(spec["dtype"], spec["dtype"])} for spec in action.params["outputs"]]
    try:
        _, bounds = bounded_reference(action.inputs["source"], arguments, specs, action.params["inputs"])
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - the reference has given what is expected: only its bound is refused, somehow
        return None
    # An infinite bound says that nothing is known of an element: then it may not differ at all.
    return [np.where(np.isinf(bound), 0.0, 2 * bound) for bound in bounds]


def _sorted(bound: Doubles, spec: DifferenceOutput) -> Doubles:
    """Return the bounds of a sketch's elements. After sorting, no element moves by more than the largest bound."""
    if not spec["sketch"] or spec["compare"] != "order-free" or not bound.ndim:
        return bound
    return np.broadcast_to(bound.max(axis=-1, keepdims=True), bound.shape)


def _share(old: Array, new: Array, bound: Doubles) -> float:
    """Return the largest difference in units of its bound; infinite where NaN or an infinity appears or disappears."""
    equal = (old == new) | (_is_nan(old) & _is_nan(new))
    with np.errstate(all="ignore"):
        share = np.where(equal, 0.0, _apart(old, new) / bound)
    return float(np.where(np.isnan(share), np.inf, share).max())


def _is_nan(array: Array) -> NDArray[np.bool_]:
    return np.isnan(dtypes.numbers(array))


def _sketched_share(old: Doubles, new: Doubles, bound: Doubles) -> float:
    """Return the same for sketched blocks: a sum moves by at most the sum of the bounds and its own rounding."""
    old, new = old[1:], new[1:]
    most = sketch.summary(bound.reshape(-1), bound.reshape(-1))
    # Counts of special values must be equal. An element just between two numbers of its dtype may round to either.
    most[:, sketch.COUNTS] = most[:, sketch.PLACES] = 0
    most[:, sketch.EXACT] = np.inf
    most[:, sketch.SIGNED] = most[:, [sketch.L1]]
    most[:, sketch.SIGNED] += _SUMMED * new[:, [sketch.L1]]
    most[:, sketch.L1 : sketch.LARGEST] += _SUMMED * new[:, sketch.L1 : sketch.LARGEST]
    return _share(old, new, most)


def compare(old_path: str, new_path: str, *, sketched: bool) -> dict[str, Any]:
    new = dtypes.load_npy(new_path)
    try:
        old = dtypes.load_npy(old_path)
    except (OSError, ValueError, EOFError) as error:
        return {"changed": f"was not readable: {dtypes.why_unreadable(error)}"}
    if sketched:
        return _sketches(old, new)
    if (old.dtype, old.shape) != (new.dtype, new.shape):
        return {"changed": f"was {old.dtype} {list(old.shape)}, is {new.dtype} {list(new.shape)}"}
    return _arrays(old, new)


def _arrays(old: Array, new: Array) -> dict[str, Any]:
    numbers = [dtypes.numbers(array) for array in (old, new)]
    differ = (old != new) & ~(np.isnan(numbers[0]) & np.isnan(numbers[1]))
    found: dict[str, Any] = {"elements": old.size, "differ": int(np.count_nonzero(differ))}
    found |= dict.fromkeys(("abs", "rel", "index", "old", "new"))
    if found["differ"]:
        with np.errstate(all="ignore"):
            # A number that became NaN or infinite, or was so before, counts as the largest difference.
            apart = _apart(old, new)
            apart = np.where(differ, np.where(np.isnan(apart), np.inf, apart), -1.0).reshape(-1)
            at = int(np.argmax(apart))
            before, after = old.reshape(-1)[at], new.reshape(-1)[at]
            relative = apart[at] / np.abs(numbers[0].reshape(-1)[at])
        found |= {"abs": plain(apart[at]), "rel": plain(relative), "old": plain(before), "new": plain(after)}
        found["index"] = dtypes.index_of(at, old.shape)
    return found


def _apart(old: Array, new: Array) -> Doubles:
    if old.dtype.kind == "f":
        return np.abs(new - old)  # type: ignore[no-any-return]
    return dtypes.difference(new, old)


def _sketches(old: Array, new: Array) -> dict[str, Any]:
    if old.shape != new.shape or not np.array_equal(old[:1], new[:1]):
        return {"changed": "was a sketch of another output, or of another version"}
    differ = (old != new) & ~(np.isnan(old) & np.isnan(new))
    found = _arrays(old[1:, sketch.PICKED], new[1:, sketch.PICKED])
    if found["index"] is not None:
        found["index"] = [int(sketch.picks(int(new[0, 2]))[tuple(found["index"])])]
    with np.errstate(all="ignore"):
        squares = np.mean((new[1:, sketch.SIGNED] - old[1:, sketch.SIGNED]) ** 2, axis=1)
        norm = np.sqrt(np.sum(squares))
    return {**found, "blocks": len(new) - 1, "differing_blocks": int(differ.any(axis=1).sum()), "norm": plain(norm)}
