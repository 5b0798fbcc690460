"""Bounds as people write them: numbers, or expressions as tolerances have them."""

from __future__ import annotations

import re


def read_bound(value: float | str) -> float:
    """``1e-6``, ``"1e-6"`` or ``"8*eps(f32)"``. Raises ValueError."""
    from mlir_matrix.actions.expr.expression import ExpressionError
    from mlir_matrix.tolerances.bounds import evaluate

    try:
        number = float(value)
    except ValueError:
        text = str(value)
        if re.search(r"\bdtype\b", text):
            raise ValueError(f"{text!r}: name the type that dtype stands for, as in 8*eps(f32)") from None
        try:
            return evaluate(text, {}, "f32")
        except ExpressionError as error:
            raise ValueError(f"{error}; a bound is a number, or an expression like 8*eps(f32)") from None
    if not number >= 0:
        raise ValueError(f"{value} is no bound; one is 0 or more")
    return number
