"""Compare numbers as ``matrix`` does: arrays, files, folders and texts, with a census of wrong elements.

>>> import numpy as np
>>> from mlir_matrix.compare import compare
>>> result = compare(np.float32([1, 2.5]), np.float32([1, 2]), rtol=1e-6)
>>> result.passed, result.wrong
(False, 1)

In a test, one call is enough: ``assert_close(actual, expected, rtol=1e-6)``.
"""

from __future__ import annotations

from typing import Any

from mlir_matrix.actions.numerics.criteria import Special, Subnormals, Zeros
from mlir_matrix.compare.arrays import compare_arrays
from mlir_matrix.compare.result import Comparison
from mlir_matrix.compare.rules import read_bound, rules

__all__ = ["Comparison", "assert_close", "compare"]


def compare(  # noqa: PLR0913 - each is a bound or a policy that a person may give
    actual: object,
    expected: object,
    *,
    rtol: float | str | None = None,
    atol: float | str | None = None,
    max_ulp: float | str | None = None,
    l1: float | str | None = None,
    l2: float | str | None = None,
    max_norm: float | str | None = None,
    cosine: float | None = None,
    nan: Special = "same",
    inf: Special = "same",
    zeros: Zeros = "same",
    subnormals: Subnormals = "keep",
    dtype: str | None = None,
    golden: bool = False,
    name: str = "",
    full: bool = False,
) -> Comparison:
    """Compare two arrays of one dtype and shape. Another dtype or shape, or no elements, is a mismatch.

    An element is right if ``|actual - expected| <= atol + rtol * |expected|``, or if it is within ``max_ulp`` numbers of its dtype.
    One of the two is enough. Missing bounds are 0; without any bound, elements must be equal. The other bounds apply to the output
    as a whole, and all of them must hold. ``l1``, ``l2`` and ``max_norm`` bound a norm of the error relative to the same norm of
    the expected values. ``cosine`` is the least cosine similarity. With only these bounds, single elements are not bounded, except
    NaN and infinities.

    Args:
        actual: An array, or a value that NumPy can convert to one; any shape.
        expected: The same, of the same dtype and shape.
        rtol: Relative bound, of ``|expected|``; a number or, like all bounds, an expression: ``"8*eps(f32)"``.
        atol: Absolute bound, in the unit of the elements.
        max_ulp: Units in the last place of the dtype.
        l1: Largest ``sum|a - e| / sum|e|``.
        l2: Largest ``sqrt(sum|a - e|^2 / sum|e|^2)``.
        max_norm: Largest ``max|a - e| / max|e|``.
        cosine: Least ``<a, e> / (|a| |e|)``.
        nan: ``same``: NaN is right where NaN is expected; ``refuse``: nowhere. An expected output of only NaN is never right.
        inf: The same for infinities, which must have the expected sign.
        zeros: ``same``: 0 and -0 are equal; ``distinct``: they are not.
        subnormals: ``keep``, or ``flush``: they count as 0 on both sides.
        dtype: MLIR's name of the elements' type, if arrays hold bits for which NumPy has no type: ``bf16``, ``f8E4M3FN``, …
        golden: True if ``expected`` is a reference in doubles, whatever the dtype of ``actual``.
        name: The name of the output in the report.
        full: Take the whole census of large arrays even if nothing is wrong.

    Returns:
        A result that is true if they agree. It has the census as attributes (``wrong``, ``max_abs``, ``max_rel``, ``max_ulp``,
        ``error_used``, ``worst``, ``where``, …), ``report()`` as text and ``picture(path)``.

    Raises:
        ValueError: An argument is not an array of numbers, or not a valid bound.
    """
    asked = rules(
        atol=_bound("atol", atol), rtol=_bound("rtol", rtol), max_ulp=_bound("max_ulp", max_ulp), l1=_bound("l1", l1),
        l2=_bound("l2", l2), max_norm=_bound("max_norm", max_norm), cosine=cosine, nan=nan, inf=inf, zeros=zeros,
        subnormals=subnormals,
    )  # fmt: skip
    return compare_arrays(actual, expected, asked, dtype=dtype, golden=golden, name=name, full=full)


def _bound(name: str, value: float | str | None) -> float | None:
    try:
        return None if value is None else read_bound(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None


def assert_close(actual: object, expected: object, **bounds: Any) -> None:
    """Compare, and raise AssertionError with the census for a mismatch. The arguments are those of :func:`compare`."""
    __tracebackhide__ = True
    result = compare(actual, expected, **bounds)
    if not result:
        raise AssertionError(f"{result.reason}\n{result.report()}")
