"""Read what the actions of a plan counted of a test's costs, and judge the exact ones by their goldens."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mlir_matrix.catalog.models.costs import MORE_IS_BETTER, NAMES
from mlir_matrix.execute.job import Done
from mlir_matrix.expand.costs import CostBound, CostGolden
from mlir_matrix.plan.costs import PlannedCosts
from mlir_matrix.plan.graph import BUILDING, Graph
from mlir_matrix.results.cost_text import Word

if TYPE_CHECKING:
    # Imported only for types: documents import NumPy, for which no run may wait.
    from mlir_matrix.results.documents import Costs, JudgedCost, StepCost


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


def compared(cost: str, value: float, golden: float, bound: CostBound) -> Word:
    """Return how a value of a cost compares with another one; ``equal`` within the bound."""
    more = golden - value if cost in MORE_IS_BETTER else value - golden
    if abs(more) <= bound.allowed(golden):
        return "equal"
    return "worse" if more > 0 else "better"


def judged_costs(exact: Mapping[str, float], goldens: Mapping[str, CostGolden]) -> list[JudgedCost]:
    """Judge each measured cost that has a golden, in the order of the goldens' layers."""
    return [
        {
            "cost": name,
            "value": exact[name],
            "golden": golden.value,
            "bound": golden.bound.text,
            "position": golden.position,
            "verdict": compared(name, exact[name], golden.value, golden.bound),
        }
        for name, golden in goldens.items()
        if name in exact
    ]
