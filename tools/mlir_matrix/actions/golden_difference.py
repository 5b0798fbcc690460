"""The ``golden_difference`` action: what a golden made anew differs in from the one that is there, in numbers.

``params``: ``{"outputs": [{"name", "sketch": whether it is one}]}``; inputs ``new-NAME`` and, where there is one, ``old-NAME``;
output ``differences``, a JSON object with an entry for each output that has an old golden: ``{"changed": a sentence}`` where they
cannot be compared, else ``elements``, ``differ`` and the largest absolute difference: ``abs``, ``rel`` (relative to the old), the
``index``, ``old`` and ``new`` there (null: none differs). Of sketches only the kept elements can be compared; what is known of the
others is how many ``blocks`` differ, and the Euclidean ``norm`` of the difference that their projections tell.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_matrix.actions import dtypes, sketch
from mlir_matrix.actions.census import plain
from mlir_matrix.actions.contract import Action, write_json
from mlir_matrix.actions.dtypes import Array, Doubles


def run(action: Action) -> None:
    """Compare and write."""
    found = {}
    for spec in action.params["outputs"]:
        name = spec["name"]
        if f"old-{name}" in action.inputs:
            found[name] = compare(action.inputs[f"old-{name}"], action.inputs[f"new-{name}"], sketched=spec["sketch"])
    write_json(action.outputs["differences"], found)


def compare(old_path: str, new_path: str, *, sketched: bool) -> dict[str, Any]:
    """The entry of one output."""
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
    numbers = [np.asarray(array, dtype=np.float64) for array in (old, new)]
    differ = (old != new) & ~(np.isnan(numbers[0]) & np.isnan(numbers[1]))
    found: dict[str, Any] = {"elements": old.size, "differ": int(np.count_nonzero(differ))}
    found |= dict.fromkeys(("abs", "rel", "index", "old", "new"))
    if found["differ"]:
        with np.errstate(all="ignore"):
            # A number that is none, or no longer, is further off than any other.
            apart = _apart(old, new)
            apart = np.where(differ, np.where(np.isnan(apart), np.inf, apart), -1.0).reshape(-1)
            at = int(np.argmax(apart))
            before, after = old.reshape(-1)[at], new.reshape(-1)[at]
            relative = apart[at] / np.abs(numbers[0].reshape(-1)[at])
        found |= {"abs": plain(apart[at]), "rel": plain(relative), "old": plain(before), "new": plain(after)}
        found["index"] = [int(place) for place in np.unravel_index(at, old.shape)]
    return found


def _apart(old: Array, new: Array) -> Doubles:
    if old.dtype.kind == "f":
        return np.abs(new - old)  # type: ignore[no-any-return]
    return dtypes.difference(new, old)


def _sketches(old: Array, new: Array) -> dict[str, Any]:
    if old.shape != new.shape or not np.array_equal(old[:1], new[:1]):
        return {"changed": "was a sketch of another output, or made in another way"}
    differ = (old != new) & ~(np.isnan(old) & np.isnan(new))
    found = _arrays(old[1:, sketch.PICKED], new[1:, sketch.PICKED])
    if found["index"] is not None:
        found["index"] = [int(sketch.picks(int(new[0, 2]))[tuple(found["index"])])]
    with np.errstate(all="ignore"):
        squares = np.mean((new[1:, sketch.SIGNED] - old[1:, sketch.SIGNED]) ** 2, axis=1)
        norm = np.sqrt(np.sum(squares))
    return {**found, "blocks": len(new) - 1, "differing_blocks": int(differ.any(axis=1).sum()), "norm": plain(norm)}
