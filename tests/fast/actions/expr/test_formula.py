"""Formulas are checked without NumPy, and before any element is made."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mlir_matrix.actions.expr.expression import ExpressionError
from mlir_matrix.actions.expr.formula import check_formula, power

DIMS = {"K": 64, "N": 10, "ZERO": 0}


@pytest.mark.parametrize(
    "text",
    [
        "uniform(-1, 1) * sqrt(3 / K)",
        "normal(0, 1.5)",
        "integers(-128, 128)",
        "(permutation() - N // 2) / 16 + iota() // N",
        "iota() % 7 ** 2 - floor(abs(-2.5))",
        "sqrt(iota())",
        "2 ** -3",
    ],
)
def test_takes_what_workloads_say(text: str) -> None:
    check_formula(text, DIMS)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("uniform(-1, 1) / sqrt(KK)", 23, "unknown name KK (perhaps you meant K)"),
        ("unifrom(0, 1)", 1, "unknown function unifrom (perhaps you meant uniform)"),
        ("uniform(0)", 1, "uniform takes 2 arguments"),
        ("iota", 1, "iota is a function"),
        ("1 / ZERO", 5, "division by zero"),
        ("iota() % (K - 64)", 11, "division by zero"),
        ("iota() // ZERO", 11, "division by zero"),
        ("iota() ** 0.5", 11, "an exponent is a whole constant"),
        ("2 ** iota()", 6, "an exponent is a whole constant"),
        ("2 ** 65", 6, "an exponent is a whole constant"),
        ("ZERO ** -1", 9, "zero to a negative power"),
        ("(10 ** 60) ** 60", 1, "does not fit a double"),
        ("1e200 * 1e200", 1, "does not fit a double"),
        ("sqrt(-2)", 1, "the square root of -2.0"),
        ("uniform(1, -1)", 1, "the range from 1.0 to -1.0 is empty"),
        ("integers(3, 3)", 1, "the range from 3.0 to 3.0 is empty"),
        ("integers(0, 2.5)", 13, "whole numbers"),
        ("integers(0, 1e300)", 13, "whole numbers"),
        ("normal(0, -1)", 11, "standard deviation of -1.0"),
        ("exp(1)", 1, "unknown function exp"),
    ],
)
def test_refuses_what_cannot_give_numbers(text: str, column: int, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        check_formula(text, DIMS)
    assert words in str(caught.value)
    assert caught.value.column == column


def test_a_dimension_too_large_for_a_double_is_refused() -> None:
    with pytest.raises(ExpressionError, match="does not fit a double"):
        check_formula("K", {"K": 10**400})


@pytest.mark.parametrize(
    ("base", "exponent", "expected"),
    [(3.0, 0, 1.0), (3.0, 5, 243.0), (2.0, -2, 0.25), (-1.5, 3, -3.375), (0.0, 0, 1.0)],
)
def test_powers_are_products(base: float, exponent: float, expected: float) -> None:
    assert power(base, exponent) == expected


def test_the_loader_needs_no_numpy() -> None:
    code = "import sys, mlir_matrix.actions.expr.formula; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": "tools"}, check=False).returncode == 0
