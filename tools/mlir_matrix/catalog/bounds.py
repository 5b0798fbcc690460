"""Bounds: numbers, or expressions over a workload's dimensions such as ``4 * sqrt(K) * eps(f32)``.

``eps(dtype)`` is that of the output, of complex numbers that of their parts, and 0 for what is not rounded. Pure, and each
distinct bound is computed once.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from functools import lru_cache

from mlir_matrix.actions.expr.expression import (
    Binary,
    Call,
    ExpressionError,
    ExpressionInterpreter,
    Function,
    Grammar,
    Node,
    Word,
    parse,
)
from mlir_matrix.actions.numerics.formats import COMPLEX, FORMATS

#: What reports say of the bounds of a layer with ``derived``.
DERIVED = "derived from reference.py, per element"
#: The distance from 1 to the next number, which is twice the largest relative error of one rounding.
EPS = {dtype: FORMATS[COMPLEX.get(dtype, dtype)].eps for dtype in (*FORMATS, *COMPLEX)}

#: The largest size of a finite number: an error of as much is that of zero, whatever is expected.
LARGEST = {
    **{dtype: FORMATS[COMPLEX.get(dtype, dtype)].largest for dtype in (*FORMATS, *COMPLEX)},
    "i64": 2.0**63, "i32": 2.0**31, "i16": 2.0**15, "i8": 2.0**7,
    "u64": 2.0**64, "u32": 2.0**32 - 1, "u16": 65535.0, "u8": 255.0, "bool": 1.0,
}  # fmt: skip

GRAMMAR = Grammar(
    about="tolerance",
    operators=frozenset({"+", "-", "*", "/", "**"}),
    functions={
        "sqrt": Function(1, 1),
        "log2": Function(1, 1),
        "max": Function(2, 8),
        "min": Function(2, 8),
        "eps": Function(1, 1, words=("f32", "f16", "bf16", "f64", "dtype")),
    },
)

#: What the C library says of logarithms and powers depends on the CPU in the last place, and no plan may.
_DIGITS = Context(prec=40)


def _log2(number: float) -> float:
    if number <= 0:
        raise ValueError(number)
    return float(_DIGITS.divide(_DIGITS.ln(Decimal(number)), _DIGITS.ln(Decimal(2))))


def _power(base: float, exponent: float) -> float:
    near = math.pow(base, exponent)
    return float(_DIGITS.power(Decimal(base), Decimal(exponent))) if base and near else near


_OPERATORS: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "**": _power,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., float]] = {"sqrt": math.sqrt, "log2": _log2, "max": max, "min": min}


def evaluate(bound: float | str, dims: Mapping[str, int], dtype: str) -> float:
    """Return the value of a bound for an output of ``dtype``. Raise ExpressionError unless it is finite and not negative."""
    return _evaluate(bound if isinstance(bound, str) else repr(bound), tuple(dims.items()), dtype)


@lru_cache(maxsize=65536)
def _evaluate(text: str, dims: tuple[tuple[str, int], ...], dtype: str) -> float:
    # An infinite or undefined number of YAML arrives as «inf» or «nan»: unknown names, refused like any other.
    value = _Floats(text, dict(dims), dtype).value(parse(text, GRAMMAR, [name for name, _ in dims]))
    if not 0 <= value < math.inf:
        raise ExpressionError(f"a tolerance cannot be {value!r}", text=text)
    return value


class _Floats(ExpressionInterpreter[float]):
    """The value of a tolerance."""

    def __init__(self, text: str, dims: Mapping[str, int], dtype: str) -> None:
        super().__init__(text, dims)
        self._dtype = dtype

    def binary(self, node: Binary, left: float, right: float) -> float:
        return self._compute(node, _OPERATORS[node.operator], left, right)

    def call(self, node: Call, arguments: list[float]) -> float:
        match node.arguments:
            case (Word(word=word),):
                return EPS.get(self._dtype if word == "dtype" else word, 0.0)
        return self._compute(node, _FUNCTIONS[node.function], *arguments)

    def _compute(self, node: Node, function: Callable[..., float], *arguments: float) -> float:
        try:
            value = function(*arguments)
        except ZeroDivisionError:
            raise self.error(node.right if isinstance(node, Binary) else node, "division by zero") from None
        except (ValueError, OverflowError):
            value = math.inf
        if not math.isfinite(value):
            raise self.error(node, "this has no finite value")
        return value


def vacuous(bounds: Mapping[str, float], dtype: str) -> dict[str, str]:
    """Return those of ``atol``, ``rtol`` and ``max_ulp`` that no output of a dtype can exceed, each with the reason."""
    rtol, largest, found = bounds.get("rtol", 0.0), LARGEST[dtype], {}
    if rtol >= 1:
        found["rtol"] = "all zeros are within it, whatever is expected; it must be less than 1"
    elif bounds.get("atol", 0.0) >= (1 - rtol) * largest:
        within = f" with an rtol of {rtol:g}" if rtol else ""
        found["atol"] = (
            f"all zeros are within it{within}, whatever is expected: no {dtype} is larger than {largest:.6g}"
        )
    # As many numbers lie between any normal one and its double.
    most = 1 / EPS[dtype] if dtype in EPS else largest
    if bounds.get("max_ulp", 0.0) >= most:
        wrong = "the double is as good as what is expected" if dtype in EPS else "all zeros are within it"
        found["max_ulp"] = f"{wrong}; it must be less than {most:.0f} for {dtype}"
    return found


def substituted(bound: float | str, dims: Mapping[str, int], dtype: str) -> str:
    """Return a bound with numbers for names, to be read: ``4 * sqrt(130) * 1.19e-07``.

    Raise :class:`ExpressionError` where it is none.
    """
    text = bound if isinstance(bound, str) else repr(bound)
    parse(text, GRAMMAR, list(dims))
    tree = ast.parse(text.strip().replace("\n", " "), mode="eval")
    return ast.unparse(_Substitute(dims, dtype).visit(tree))


class _Substitute(ast.NodeTransformer):
    """Replaces names by numbers, as names for ``ast``, which would write all digits of a number."""

    def __init__(self, dims: Mapping[str, int], dtype: str) -> None:
        self._dims, self._dtype = dims, dtype

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(func=ast.Name(id="eps"), args=[ast.Name(id=word)]):
                return ast.Name(f"{EPS.get(self._dtype if word == 'dtype' else word, 0.0):.3g}")
        node.args = [self.visit(argument) for argument in node.args]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(str(self._dims[node.id]))
