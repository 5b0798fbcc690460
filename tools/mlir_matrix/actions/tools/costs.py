"""Gather the exact costs of a test: what it executes, what its object shows, and the operations at each level.

params   ``absent``: why costs are not known, by cost
inputs   ``counts`` of ``count``, ``inspected`` of ``inspect_object``, and ``level-KIND``, IR of a kind in MLIR's generic form; each
         may be absent
outputs  ``costs``: JSON with ``exact``, ``operations`` by kind, and ``absent``
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from mlir_matrix.actions.contract import Action, write_json
from mlir_matrix.actions.params import CostsParams

_LEVEL = "level-"
#: An operation in the generic form. A string, which may have anything in it, is not followed by a parenthesis.
_OPERATION = re.compile(r'"([A-Za-z_][\w.$-]*)"\(')
_COUNTED = ("instructions", "d1_misses", "ll_misses", "allocations", "peak_bytes", "total_bytes")
_READ = ("code_bytes", "data_bytes", "vector_share")


def run(action: Action[CostsParams]) -> None:
    """Write the costs."""
    counts, inspected = _read(action, "counts"), _read(action, "inspected")
    absent = {**action.params["absent"], **inspected.get("absent", {})}
    if "absent" in counts:
        absent |= dict.fromkeys(_COUNTED, counts["absent"])
    exact = {name: counts[name] for name in _COUNTED if name in counts}
    exact |= {name: inspected[name] for name in _READ if name in inspected}
    exact |= {f"cycles_{cpu.replace('-', '_')}": value for cpu, value in inspected.get("cycles", {}).items()}
    operations: dict[str, dict[str, int]] = {}
    for name, path in action.inputs.items():
        if name.startswith(_LEVEL):
            level = name.removeprefix(_LEVEL)
            found = Counter(_OPERATION.findall(Path(path).read_text(encoding="utf-8")))
            operations[level] = dict(found.most_common())
            exact[f"operations_{level.replace('-', '_')}"] = found.total()
    write_json(action.outputs["costs"], {"exact": exact, "operations": operations, "absent": absent})


def _read(action: Action[CostsParams], name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(action.inputs[name]).read_text()) if name in action.inputs else {}
    return found
