"""Costs of tests whose program, or whose counting, failed; and costs in files that others wrote."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from mlir_matrix.catalog.models.costs import NAMES
from mlir_matrix.execute.action_cache import Result
from mlir_matrix.execute.job import Done
from mlir_matrix.plan.costs import PlannedCosts
from mlir_matrix.plan.graph import File, Graph
from mlir_matrix.results.costs import costs_of
from mlir_matrix.results.documents import Costs

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
