"""The operations on elements: where they are defined, in which interval they end, and what each source calls them.

Texts have their operands as ``{0}``, ``{1}`` and ``{2}``. Of MLIR's scalar form, lines end with the name of their result: ``{r}``
is the last one, ``{t}`` its type. A source without a text cannot have the operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from typing import NamedTuple

from mlir_matrix.fuzz.values import BOOL, INTEGER, Interval

#: No element is larger, so that no format overflows, and integers stay exact as floats.
LARGEST = 1000.0
#: Quotients, roots and logarithms keep away from 0, where their results have wide bounds.
APART = 0.125

Ends = Callable[..., Interval | None]


class Elementwise(NamedTuple):
    """An operation on elements. ``ends`` gives the interval of the result; None where it is not defined."""

    ends: Ends
    python: str
    scalar: str
    torch: str = ""
    #: As the dialect ``linalg`` calls it.
    named: str = ""
    tosa: str = ""
    stablehlo: str = ""
    operands: int = 1
    #: Of the operands, and of the result.
    dtype: str = "float"
    result: str = ""
    #: Whether a decision is made, which must not depend on roundings.
    decides: bool = False
    #: Whether exact operands give an exact result.
    exact: bool = False


def _corners(function: Callable[..., float]) -> Ends:
    """Return the interval of a function that is monotonic in each operand."""

    def ends(*operands: Interval) -> Interval:
        found = [function(*corner) for corner in product(*((each.low, each.high) for each in operands))]
        return Interval(min(found), max(found))

    return ends


def _within(low: float, high: float, ends: Ends) -> Ends:
    """Return the interval of a function that is defined, or exact enough, only here."""

    def limited(a: Interval, *others: Interval) -> Interval | None:
        return ends(a, *others) if low <= a.low and a.high <= high else None

    return limited


def _between(low: float, high: float) -> Ends:
    return lambda *_: Interval(low, high)


#: Of larger operands, such as sums in f16, the error is near a period, and then no bound of what follows is finite.
_PERIODIC = _within(-4, 4, _between(-1, 1))


def _divided(a: Interval, b: Interval) -> Interval | None:
    apart = b.low >= APART or b.high <= -APART
    return _corners(lambda x, y: x / y)(a, b) if apart else None


def _inverse(a: Interval) -> Interval | None:
    return _divided(Interval(1, 1), a)


def _absolute(a: Interval) -> Interval:
    return Interval(0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high)), a.size)


def _chosen(_mask: Interval, a: Interval, b: Interval) -> Interval:
    return a.joined(b)


def _of_bits(a: Interval, b: Interval) -> Interval | None:
    """Of numbers that are not negative, no result has more bits than the larger one."""
    if min(a.low, b.low) < 0:
        return None
    return Interval(0, 2 ** max(a.size, b.size, 1).__ceil__().bit_length() - 1)


_MAX = _corners(max)
_MIN = _corners(min)

ELEMENTWISE: Mapping[str, Elementwise] = {
    "add": Elementwise(_corners(lambda x, y: x + y), "{0} + {1}", "{r} = arith.addf {0}, {1} : {t}",
                       named="add", tosa="add", stablehlo="add", operands=2),
    "sub": Elementwise(_corners(lambda x, y: x - y), "{0} - {1}", "{r} = arith.subf {0}, {1} : {t}",
                       named="sub", tosa="sub", stablehlo="subtract", operands=2),
    "mul": Elementwise(_corners(lambda x, y: x * y), "{0} * {1}", "{r} = arith.mulf {0}, {1} : {t}",
                       named="mul", tosa="mul", stablehlo="multiply", operands=2),
    "div": Elementwise(_divided, "{0} / {1}", "{r} = arith.divf {0}, {1} : {t}",
                       named="div", stablehlo="divide", operands=2),
    "max": Elementwise(_MAX, "np.maximum({0}, {1})", "{r} = arith.maximumf {0}, {1} : {t}", torch="torch.maximum({0}, {1})",
                       named="max", tosa="maximum", stablehlo="maximum", operands=2, exact=True),
    "min": Elementwise(_MIN, "np.minimum({0}, {1})", "{r} = arith.minimumf {0}, {1} : {t}", torch="torch.minimum({0}, {1})",
                       named="min", tosa="minimum", stablehlo="minimum", operands=2, exact=True),
    "neg": Elementwise(_corners(lambda x: -x), "-{0}", "{r} = arith.negf {0} : {t}",
                       named="negf", tosa="negate", stablehlo="negate", exact=True),
    "abs": Elementwise(_absolute, "np.abs({0})", "{r} = math.absf {0} : {t}", torch="torch.abs({0})",
                       named="abs", tosa="abs", stablehlo="abs", exact=True),
    "exp": Elementwise(_within(-20, 6, _corners(math.exp)), "np.exp({0})", "{r} = math.exp {0} : {t}", torch="torch.exp({0})",
                       named="exp", tosa="exp", stablehlo="exponential"),
    "log": Elementwise(_within(APART, LARGEST, _corners(math.log)), "np.log({0})", "{r} = math.log {0} : {t}",
                       torch="torch.log({0})", named="log", tosa="log", stablehlo="log"),
    "tanh": Elementwise(_between(-1, 1), "np.tanh({0})", "{r} = math.tanh {0} : {t}", torch="torch.tanh({0})",
                        named="tanh", tosa="tanh", stablehlo="tanh"),
    "sigmoid": Elementwise(
        _within(-20, LARGEST, _between(0, 1)), "1 / (1 + np.exp(-{0}))",
        "%n = arith.negf {0} : {t}\n%e = math.exp %n : {t}\n%one = arith.constant 1.0 : {t}\n%d = arith.addf %one, %e : {t}\n"
        "{r} = arith.divf %one, %d : {t}", torch="torch.sigmoid({0})", tosa="sigmoid", stablehlo="logistic"),
    "sqrt": Elementwise(_within(APART, LARGEST, _corners(math.sqrt)), "np.sqrt({0})", "{r} = math.sqrt {0} : {t}",
                        torch="torch.sqrt({0})", named="sqrt", stablehlo="sqrt"),
    "rsqrt": Elementwise(
        _within(APART, LARGEST, _corners(lambda x: x**-0.5)), "1 / np.sqrt({0})", "{r} = math.rsqrt {0} : {t}",
        torch="torch.rsqrt({0})", named="rsqrt", tosa="rsqrt", stablehlo="rsqrt"),
    "reciprocal": Elementwise(
        _inverse, "1 / {0}", "%one = arith.constant 1.0 : {t}\n{r} = arith.divf %one, {0} : {t}",
        torch="torch.reciprocal({0})", named="reciprocal", tosa="reciprocal"),
    "sin": Elementwise(_PERIODIC, "np.sin({0})", "{r} = math.sin {0} : {t}", torch="torch.sin({0})",
                       tosa="sin", stablehlo="sine"),
    "cos": Elementwise(_PERIODIC, "np.cos({0})", "{r} = math.cos {0} : {t}", torch="torch.cos({0})",
                       tosa="cos", stablehlo="cosine"),
    "atan": Elementwise(_between(-math.pi / 2, math.pi / 2), "np.arctan({0})", "{r} = math.atan {0} : {t}",
                        torch="torch.atan({0})"),
    "select": Elementwise(_chosen, "np.where({0}, {1}, {2})", "{r} = arith.select {0}, {1}, {2} : {t}",
                          torch="torch.where({0}, {1}, {2})", named="select", tosa="select", stablehlo="select",
                          operands=3, exact=True),
    "greater": Elementwise(_between(0, 1), "{0} > {1}", "{r} = arith.cmpf ogt, {0}, {1} : {t}", tosa="greater",
                           stablehlo="compare GT", operands=2, result=BOOL, decides=True, exact=True),
    "i_add": Elementwise(_corners(lambda x, y: x + y), "{0} + {1}", "{r} = arith.addi {0}, {1} : {t}",
                         named="add", tosa="add", stablehlo="add", operands=2, dtype=INTEGER, exact=True),
    "i_sub": Elementwise(_corners(lambda x, y: x - y), "{0} - {1}", "{r} = arith.subi {0}, {1} : {t}",
                         named="sub", tosa="sub", stablehlo="subtract", operands=2, dtype=INTEGER, exact=True),
    "i_mul": Elementwise(_corners(lambda x, y: x * y), "{0} * {1}", "{r} = arith.muli {0}, {1} : {t}",
                         named="mul", tosa="mul", stablehlo="multiply", operands=2, dtype=INTEGER, exact=True),
    "i_max": Elementwise(_MAX, "np.maximum({0}, {1})", "{r} = arith.maxsi {0}, {1} : {t}", torch="torch.maximum({0}, {1})",
                         named="max", tosa="maximum", stablehlo="maximum", operands=2, dtype=INTEGER, exact=True),
    "i_min": Elementwise(_MIN, "np.minimum({0}, {1})", "{r} = arith.minsi {0}, {1} : {t}", torch="torch.minimum({0}, {1})",
                         named="min", tosa="minimum", stablehlo="minimum", operands=2, dtype=INTEGER, exact=True),
    "i_and": Elementwise(_of_bits, "{0} & {1}", "{r} = arith.andi {0}, {1} : {t}", tosa="bitwise_and", stablehlo="and",
                         operands=2, dtype=INTEGER, exact=True),
    "i_or": Elementwise(_of_bits, "{0} | {1}", "{r} = arith.ori {0}, {1} : {t}", tosa="bitwise_or", stablehlo="or",
                        operands=2, dtype=INTEGER, exact=True),
    "i_xor": Elementwise(_of_bits, "{0} ^ {1}", "{r} = arith.xori {0}, {1} : {t}", tosa="bitwise_xor", stablehlo="xor",
                         operands=2, dtype=INTEGER, exact=True),
    "i_greater": Elementwise(_between(0, 1), "{0} > {1}", "{r} = arith.cmpi sgt, {0}, {1} : {t}", tosa="greater",
                             stablehlo="compare GT", operands=2, dtype=INTEGER, result=BOOL, decides=True, exact=True),
}  # fmt: skip
