"""Read what the actions of a plan counted of a test's costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mlir_matrix.catalog.models.costs import NAMES
from mlir_matrix.execute.job import Done
from mlir_matrix.plan.costs import PlannedCosts
from mlir_matrix.plan.graph import BUILDING, Graph

if TYPE_CHECKING:
    # Imported only for types: documents import NumPy, for which no run may wait.
    from mlir_matrix.results.documents import Costs, StepCost


def costs_of(planned: PlannedCosts, graph: Graph, done: Mapping[str, Done], read_blob: Callable[[str], bytes]) -> Costs:
    """Return the costs of a test whose program ran; where they could not be counted, each is absent for that reason.

    Raise LostBlob.
    """
    counted = done[planned.action].result
    if counted.ok:
        found: dict[str, Any] = json.loads(read_blob(counted.outputs["costs"]))
    else:
        outcome = counted.outcome
        reason = f"counting failed: {outcome['outcome']}: {outcome['reason']}"
        found = {"exact": {}, "absent": dict.fromkeys(NAMES, reason), "operations": {}}
    compiled = [name for name in planned.compiled_by if name in done and graph.actions[name].tool not in BUILDING]
    costs: Costs = {
        "exact": found["exact"],
        "absent": found["absent"],
        "operations": found["operations"],
        "compile": [_step_cost(graph.actions[name].label, done[name]) for name in compiled],
    }
    if planned.native:
        costs["native"] = True
    return costs


def _step_cost(label: str, done: Done) -> StepCost:
    usage = done.result.usage
    seconds = usage.get("user_s", 0.0) + usage.get("sys_s", 0.0)
    return {"action": label, "cpu_s": round(seconds, 4), "peak_bytes": int(usage.get("max_rss_kb", 0)) << 10}
