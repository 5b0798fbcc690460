"""Describe exact costs and how they compare with their goldens. Unchanged runs import this module, so it imports little."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from mlir_matrix.results.documents import Costs, JudgedCost

Word = Literal["worse", "better", "equal"]


def costs_that_are(verdict: Word, costs: Costs | None) -> list[JudgedCost]:
    """Return the costs that are worse or better than their goldens."""
    judged = costs.get("judged", []) if costs else []
    return [each for each in judged if each["verdict"] == verdict]


def cost_reason(judged: Iterable[JudgedCost]) -> str:
    """Return costs in words, each with its golden, the change, the bound and the position."""
    return "; ".join(map(_words, judged))


def _words(judged: JudgedCost) -> str:
    value, golden, bound = judged["value"], judged["golden"], judged["bound"]
    bound_words = bound if isinstance(bound, str) else number(bound)
    return (
        f"{judged['cost']} {number(value)}, golden {number(golden)}{change(golden, value)}, bound {bound_words} "
        f"({judged['position']})"
    )


def number(value: float) -> str:
    """Format a cost: ``5,219,967``, ``0.25``."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def change(before: float, after: float) -> str:
    """Return by how much a cost has changed, in brackets: `` (+1.5 %)``; empty if the share says nothing."""
    return f" ({(after - before) / before:+.1%})".replace("%", " %") if before else ""
