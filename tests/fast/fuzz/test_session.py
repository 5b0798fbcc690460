"""Which results are findings."""

from __future__ import annotations

from typing import Any

import pytest

from mlir_matrix.fuzz.session import fails
from mlir_matrix.results.results import TestResult

RIGHT = {"name": "y0", "outcome": "pass", "reason": "equal", "wrong": 0}
WRONG = {"name": "y1", "outcome": "mismatch", "reason": "2 elements are wrong", "wrong": 2}
SHAPELESS = {"name": "y1", "outcome": "mismatch", "reason": "the output is missing"}


def result_of(verdict: Any) -> TestResult:
    """A mismatch; without a verdict, of IR with directives."""
    return TestResult(
        id="linalg/x/y/z", framework="linalg", pipeline="x", target="y", workload="z",
        outcome="mismatch", stage="judge", expected=False, reason="", verdict=verdict,
    )  # fmt: skip


def test_ir_in_another_form_is_no_finding() -> None:
    assert not fails(result_of(None))


@pytest.mark.parametrize(
    ("outputs", "failed"),
    [
        ([RIGHT, WRONG], True),
        ([RIGHT, {**WRONG, "wrong_by_layer": 1}], True),
        ([RIGHT, {**WRONG, "wrong_by_layer": 2}], False),
        ([{**WRONG, "wrong_by_layer": 2}, WRONG], True),
        ([SHAPELESS], True),
    ],
)
def test_wrong_elements_without_a_derived_bound_are_no_finding(outputs: list[Any], failed: bool) -> None:
    assert fails(result_of({"outcome": "mismatch", "reason": "", "outputs": outputs, "metrics": {}})) == failed
