"""Formulas of a workload's inputs, such as ``uniform(-1, 1) / sqrt(K)``.

Every operation is one that IEEE 754 rounds exactly (``+ - * / sqrt floor``, and what is made of them), in double, so
that any machine gets the same bits; this is why ``**`` takes whole exponents only and there is no ``exp``. Random
functions are counter-based: element *i* depends on the seed, on *i* and on which call of the formula it is, and on
nothing else.

This module checks formulas and folds constants with the standard library alone, for the loader;
:mod:`mlir_matrix.actions.tools.inputs` evaluates them with NumPy.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from mlir_matrix.actions.expr.expression import (
    Binary,
    Call,
    ExpressionError,
    ExpressionInterpreter,
    Function,
    Grammar,
    Node,
    parse,
)

#: Beyond this, doubles skip whole numbers.
LARGEST_WHOLE = 2.0**53
LARGEST_EXPONENT = 64

GRAMMAR = Grammar(
    about="formula",
    operators=frozenset({"+", "-", "*", "/", "//", "%", "**"}),
    functions={
        "uniform": Function(2, 2),
        "normal": Function(2, 2),
        "integers": Function(2, 2),
        "iota": Function(0, 0),
        "permutation": Function(0, 0),
        "sqrt": Function(1, 1),
        "abs": Function(1, 1),
        "floor": Function(1, 1),
        "values": Function(1, 64),
        "inf": Function(0, 0),
    },
)
#: Functions whose value depends on the element.
PER_ELEMENT = frozenset({"uniform", "normal", "integers", "iota", "permutation", "values"})


_parse = lru_cache(maxsize=1024)(parse)


def parse_formula(text: str, dims: Iterable[str]) -> Node:
    """Return the tree of a formula over the named dimensions. Raise ExpressionError."""
    return _parse(text, GRAMMAR, frozenset(dims))


def check_formula(text: str, dims: Mapping[str, int]) -> None:
    """Raise ExpressionError for a formula that is wrong for these dimensions, as far as constants show it."""
    try:
        Constants(text, dims).value(parse_formula(text, dims))
    except OverflowError:
        raise ExpressionError("a dimension does not fit a double", text=text) from None


def power(base: Any, exponent: float) -> Any:
    """Raise floats or arrays of doubles to a whole power, by repeated squaring in a fixed order."""
    count = int(abs(exponent))
    result, square = base * 0.0 + 1.0, base
    while count:
        if count & 1:
            result = result * square
        count >>= 1
        if count:
            square = square * square
    return 1.0 / result if exponent < 0 else result


#: Operators on floats and on arrays of doubles. ``//`` and ``%`` are Python's: the remainder, which is exact, takes the sign of
#: the divisor.
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": power,
}


class Constants(ExpressionInterpreter["float | None"]):
    """Compute what is the same for every element; None stands for what is not."""

    def binary(self, node: Binary, left: float | None, right: float | None) -> float | None:
        self.check_right(node, right)
        if left is None or right is None:
            return None
        if node.operator == "**" and left == 0 and right < 0:
            raise self.error(node.right, "zero to a negative power")
        try:
            return self.finite(node, float(ARITHMETIC[node.operator](left, right)))
        except (OverflowError, ZeroDivisionError):
            raise self.error(node, "the value does not fit a double") from None

    def check_right(self, node: Binary, right: float | None) -> None:
        """Raise ExpressionError for a division by zero, and for an exponent that exact rounding does not allow."""
        if node.operator in ("/", "//", "%") and right == 0:
            raise self.error(node.right, "division by zero")
        most = LARGEST_EXPONENT
        if node.operator == "**" and (right is None or right != math.floor(right) or abs(right) > most):
            raise self.error(node.right, f"an exponent is a whole constant from -{most} to {most}; or use sqrt()")

    def call(self, node: Call, arguments: list[float | None]) -> float | None:
        self.check_range(node, arguments)
        if node.function == "inf":
            return math.inf
        if node.function in PER_ELEMENT or arguments[0] is None:
            return None
        argument = arguments[0]
        if node.function == "sqrt":
            if argument < 0:
                raise self.error(node, f"the square root of {argument!r}")
            return math.sqrt(argument)
        return abs(argument) if node.function == "abs" else float(math.floor(argument))

    def check_range(self, node: Call, arguments: list[float | None]) -> None:
        """Raise ExpressionError for an empty range of random numbers with constant limits."""
        if node.function == "normal" and arguments[1] is not None and arguments[1] < 0:
            raise self.error(node.arguments[1], f"a standard deviation of {arguments[1]!r}")
        if node.function not in ("uniform", "integers"):
            return
        low, high = arguments
        if node.function == "integers":
            self._check_whole(node, arguments)
        if low is None or high is None:
            return
        if low > high or (node.function == "integers" and low == high):
            raise self.error(node, f"the range from {low!r} to {high!r} is empty")

    def _check_whole(self, node: Call, arguments: list[float | None]) -> None:
        for part, value in zip(node.arguments, arguments, strict=True):
            if value is not None and (value != math.floor(value) or abs(value) > LARGEST_WHOLE):
                raise self.error(part, f"integers() takes whole numbers up to 2**53, not {value!r}")

    def finite(self, node: Node, value: float) -> float:
        if not math.isfinite(value):
            raise self.error(node, "the value does not fit a double")
        return value
