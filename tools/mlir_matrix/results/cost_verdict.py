"""Judge the exact costs of a test by their goldens: a cost is worse, better, or equal within its bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlir_matrix.catalog.models.costs import MORE_IS_BETTER
from mlir_matrix.expand.costs import CostBound, CostGolden
from mlir_matrix.results.cost_text import Word

if TYPE_CHECKING:
    from mlir_matrix.results.documents import JudgedCost


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
