"""How exact the functions of correct programs are, apart from all tolerances.

``+ - * /`` and ``sqrt`` are rounded correctly (IEEE 754). The other functions may be off by what the OpenCL C
specification allows a conforming implementation in single precision ("Relative Error as ULPs", full profile). That
table was made for compilers and libraries of many vendors, long before this program and independently of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mlir_matrix.actions.numerics.dtypes import Doubles


@dataclass(frozen=True, kw_only=True)
class FunctionAccuracy:
    """A function of one argument: errors of its own in units in the last place, and how it passes on that of its argument.

    ``slope`` is the size of the derivative; between two places it is largest at one of them or, if between, at the ``peak`` that is
    nearest to the argument, where it may be infinite.
    ``limit``: the most that two values can differ whose arguments are ``e`` apart, where the slope is no help.
    """

    compute: Callable[[Doubles], Doubles]
    ulps: float
    slope: Callable[[Doubles], Doubles]
    peak: Callable[[Doubles], Doubles] | None = None
    limit: Callable[[Doubles], Doubles] | None = None

    @property
    def roundings(self) -> float:
        """Its own errors in units of ``u``: correct rounding is one, and a unit in the last place is at most two."""
        return 2 * self.ulps


def _root(e: Doubles) -> Doubles:
    return np.pi * np.sqrt(e / 2)


def _bell(x: Doubles) -> Doubles:
    return np.exp(-(x**2)) * (2 / math.sqrt(math.pi))


def _elementwise(name: str) -> Callable[[Doubles], Doubles]:
    """A function of Python's ``math`` that NumPy lacks."""
    return np.vectorize(getattr(math, name), otypes=[np.float64])


def _pole_of_tan(x: Doubles) -> Doubles:
    return (np.floor(x / np.pi) + 0.5) * np.pi


#: By NumPy's name, or that of ``math``.
FUNCTIONS = {
    "exp": FunctionAccuracy(compute=np.exp, ulps=3, slope=np.exp),
    "exp2": FunctionAccuracy(compute=np.exp2, ulps=3, slope=lambda x: np.exp2(x) * np.log(2)),
    "expm1": FunctionAccuracy(compute=np.expm1, ulps=3, slope=np.exp),
    "log": FunctionAccuracy(compute=np.log, ulps=3, slope=lambda x: 1 / np.abs(x), peak=np.zeros_like),
    "log2": FunctionAccuracy(compute=np.log2, ulps=3, slope=lambda x: 1 / np.abs(x * np.log(2)), peak=np.zeros_like),
    "log10": FunctionAccuracy(compute=np.log10, ulps=3, slope=lambda x: 1 / np.abs(x * np.log(10)), peak=np.zeros_like),
    "log1p": FunctionAccuracy(
        compute=np.log1p, ulps=2, slope=lambda x: 1 / np.abs(1 + x), peak=lambda x: -np.ones_like(x)
    ),
    "sqrt": FunctionAccuracy(compute=np.sqrt, ulps=0.5, slope=lambda x: 0.5 / np.sqrt(x), limit=np.sqrt),
    "cbrt": FunctionAccuracy(
        compute=np.cbrt,
        ulps=2,
        slope=lambda x: np.cbrt(x) ** -2 / 3,
        peak=np.zeros_like,
        limit=lambda e: np.cbrt(4 * e),
    ),
    # The slope of sine and cosine is at most 1; between two places it may be that anywhere.
    "sin": FunctionAccuracy(compute=np.sin, ulps=4, slope=np.ones_like),
    "cos": FunctionAccuracy(compute=np.cos, ulps=4, slope=np.ones_like),
    "tan": FunctionAccuracy(compute=np.tan, ulps=5, slope=lambda x: np.cos(x) ** -2, peak=_pole_of_tan),
    "arcsin": FunctionAccuracy(compute=np.arcsin, ulps=4, slope=lambda x: 1 / np.sqrt(1 - x**2), limit=_root),
    "arccos": FunctionAccuracy(compute=np.arccos, ulps=4, slope=lambda x: 1 / np.sqrt(1 - x**2), limit=_root),
    "arctan": FunctionAccuracy(compute=np.arctan, ulps=5, slope=lambda x: 1 / (1 + x**2), peak=np.zeros_like),
    "sinh": FunctionAccuracy(compute=np.sinh, ulps=4, slope=np.cosh),
    "cosh": FunctionAccuracy(compute=np.cosh, ulps=4, slope=lambda x: np.abs(np.sinh(x))),
    "tanh": FunctionAccuracy(compute=np.tanh, ulps=5, slope=lambda x: np.cosh(x) ** -2, peak=np.zeros_like),
    "arcsinh": FunctionAccuracy(compute=np.arcsinh, ulps=4, slope=lambda x: 1 / np.sqrt(1 + x**2), peak=np.zeros_like),
    "arccosh": FunctionAccuracy(compute=np.arccosh, ulps=4, slope=lambda x: 1 / np.sqrt(x**2 - 1)),
    "arctanh": FunctionAccuracy(
        compute=np.arctanh, ulps=5, slope=lambda x: 1 / np.abs(1 - x**2), peak=lambda x: np.copysign(1.0, x)
    ),
    "erf": FunctionAccuracy(compute=_elementwise("erf"), ulps=16, slope=_bell, peak=np.zeros_like),
    "erfc": FunctionAccuracy(compute=_elementwise("erfc"), ulps=16, slope=_bell, peak=np.zeros_like),
}
#: Functions of two arguments, in units in the last place.
POWER, HYPOTENUSE, ANGLE = 16.0, 4.0, 6.0
