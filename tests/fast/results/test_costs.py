"""Costs of tests whose counting failed, costs in files that others wrote, and costs judged by goldens and bounds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from mlir_matrix.catalog.models.costs import NAMES
from mlir_matrix.execute.action_cache import Result
from mlir_matrix.execute.job import Done
from mlir_matrix.expand.costs import CostBound, CostGolden
from mlir_matrix.plan.costs import PlannedCosts
from mlir_matrix.plan.graph import File, Graph
from mlir_matrix.results.cost_text import cost_reason, costs_that_are
from mlir_matrix.results.costs import compared, costs_of, judged_costs
from mlir_matrix.results.documents import Costs, JudgedCost

COUNTS = st.integers(0, 10**12)
SHARES = st.integers(0, 50)
PLANNED = PlannedCosts(action="costs", artifact=File(0, "k.o"), compiled_by=(), timed="", linalg=None, native=False)


def ended(outcome: str, reason: str = "") -> Done:
    return Done(result=Result(outcome={"outcome": outcome, "stage": "run", "reason": reason}, outputs={}), cached=False)


def test_costs_that_could_not_be_counted_have_the_reason() -> None:
    costs = costs_of(PLANNED, Graph(), {"costs": ended("infra-error", "no Valgrind")}, lambda _: b"")
    assert costs["exact"] == {}
    assert costs["absent"] == dict.fromkeys(NAMES, "counting failed: infra-error: no Valgrind")


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 10**300, "12"])
@pytest.mark.parametrize("key", ["exact", "time"])
def test_costs_that_cannot_be_are_refused(key: str, value: float) -> None:
    time = {"ns": value if key == "time" else 1, "low": 1, "high": 1, "samples": 1}
    exact = {"instructions": value if key == "exact" else 0}
    document: dict[str, Any] = {"exact": exact, "absent": {}, "operations": {}, "compile": [], "time": time}
    with pytest.raises(ValidationError, match="should be"):
        TypeAdapter(Costs).validate_python(document)


def golden(value: float, bound: float | str = 0) -> CostGolden:
    return CostGolden(value=value, position="golden/matmul/costs.yaml:4:5", bound=CostBound(text=bound))


def costs(judged: list[JudgedCost]) -> Costs:
    return {"exact": {}, "absent": {}, "operations": {}, "compile": [], "judged": judged}


def test_the_reason_has_value_golden_change_bound_and_position() -> None:
    goldens = {"instructions": golden(5219967, "1 %"), "code_bytes": golden(1312, "2 %"), "d1_misses": golden(0, 100)}
    judged = judged_costs({"instructions": 5300000, "code_bytes": 1300, "d1_misses": 101, "allocations": 7}, goldens)
    assert [each["verdict"] for each in judged] == ["worse", "equal", "worse"]
    assert cost_reason(costs_that_are("worse", costs(judged))) == (
        "instructions 5,300,000, golden 5,219,967 (+1.5 %), bound 1 % (golden/matmul/costs.yaml:4:5); "
        "d1_misses 101, golden 0, bound 100 (golden/matmul/costs.yaml:4:5)"
    )


@given(COUNTS, COUNTS, SHARES, COUNTS)
def test_a_verdict_is_by_the_distance_and_its_direction(value: int, reference: int, share: int, more: int) -> None:
    bound = CostBound(text=f"{share} % + {more}")
    word = compared("instructions", value, reference, bound)
    distance, allowed = abs(value - reference) * 100, share * reference + more * 100
    # Within the rounding of doubles either word is right.
    if abs(distance - allowed) > 1e-6 * max(distance, allowed):
        assert (word == "equal") == (distance < allowed)
    if word != "equal":
        assert word == ("worse" if value > reference else "better")


@given(COUNTS, COUNTS)
def test_without_a_bound_only_equal_costs_are_equal_and_swapping_reverses_the_verdict(value: int, other: int) -> None:
    word = compared("code_bytes", value, other, CostBound())
    assert (word == "equal") == (value == other)
    assert compared("code_bytes", other, value, CostBound()) == {"worse": "better", "better": "worse"}.get(word, word)


def test_of_the_vector_share_more_is_better() -> None:
    assert compared("vector_share", 0.5, 1.0, CostBound(text=0.02)) == "worse"
    assert compared("vector_share", 1.0, 0.5, CostBound(text=0.02)) == "better"
    assert compared("vector_share", 0.99, 1.0, CostBound(text=0.02)) == "equal"
