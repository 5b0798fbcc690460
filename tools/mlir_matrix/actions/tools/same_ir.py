"""Decide whether two pipelines give the same IR.

inputs   ``ir`` and ``other``
outputs  ``verdict``, as the judge's, with ``diagnostics`` that show the difference

MLIR prints the generic form canonically: it numbers values, blocks and attribute aliases in order, sorts attributes by name, and
omits locations. Equal structure gives equal text, whatever names a file gives to values.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from mlir_matrix.actions.contract import Action, write_json
from mlir_matrix.actions.mlir import backend
from mlir_matrix.actions.outcomes import of_relation
from mlir_matrix.actions.params import SameIrParams

preload = backend.preload

#: The most lines of the difference to report.
_MOST = 60
_OPERATION = re.compile(r'^\s*(?:%[^=]*= )?"[\w.$-]+"\(', re.MULTILINE)


def run(action: Action[SameIrParams]) -> None:
    """Write the verdict; ActionFailed if one of the two does not parse."""
    told = action.params
    this, other = backend.backend_of(action).printed(action, {"ir": "the IR", "other": "the other IR"})
    generic, custom = (this.generic, other.generic), (this.custom, other.custom)
    found = verdict(told["relation"], generic, custom, same=told["same"], other=told["other"])
    write_json(action.outputs["verdict"], found)


def verdict(
    relation: str, generic: tuple[str, str], custom: tuple[str, str], *, same: bool, other: str = "other"
) -> dict[str, Any]:
    """Return the verdict on two modules in generic form. Show the difference in the custom form if possible.

    ``same``: both come from the same action, so comparing them proves nothing. ``other``: the name of the other one.
    """
    counts = [len(_OPERATION.findall(text)) for text in generic]
    metrics = {"operations": counts[0]}
    if same:
        return _wrong(relation, "both are the output of one and the same action", metrics)
    # The module itself counts as one operation.
    if min(counts) <= 1:
        return _wrong(relation, "there is no operation to compare", metrics)
    if generic[0] == generic[1]:
        reason = f"{relation}: all {counts[0]} operations are the same"
        return {"outcome": "pass", "reason": reason, "outputs": [], "metrics": metrics}
    shown = custom if custom[0] != custom[1] else generic
    lines = list(
        difflib.unified_diff(shown[1].splitlines(), shown[0].splitlines(), fromfile=other, tofile="this", lineterm="")
    )
    changed = sum(line[0] in "+-" for line in lines[2:])
    more = [f"[{len(lines) - _MOST} more lines]"] if len(lines) > _MOST else []
    said = f"the IR differs in {changed} lines; {counts[0]} operations here, {counts[1]} there"
    return {**_wrong(relation, said, metrics), "diagnostics": "\n".join([*lines[:_MOST], *more]) + "\n"}


def _wrong(relation: str, reason: str, metrics: dict[str, Any]) -> dict[str, Any]:
    return {
        "outcome": "mismatch",
        "reason": of_relation(relation, "mismatch", reason),
        "outputs": [],
        "metrics": metrics,
    }
