"""Compare two arrays: first dtype and shape, then the elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mlir_matrix.actions.numerics import dtypes
from mlir_matrix.actions.numerics.census import CensusCounter, plain
from mlir_matrix.actions.numerics.diagnosis import diagnose
from mlir_matrix.actions.numerics.dtypes import ROUNDED, STORAGE, Array
from mlir_matrix.actions.numerics.formats import FRAMEWORK_NAMES
from mlir_matrix.compare.fast_path import blocks, gate
from mlir_matrix.compare.result import Comparison
from mlir_matrix.compare.rules import Rules

#: The most elements for which the whole census is taken even if nothing is wrong.
_SMALL = 1 << 18
#: The most elements for which known wrong outputs are compared. That allocates arrays of the output's size.
_GUESSABLE = 1 << 22
#: NumPy's names of our types, including those of ml_dtypes, which adds types to NumPy.
_NAMES = {
    **{name: dtype for dtype, name in FRAMEWORK_NAMES.items()},
    **{f"float8_{dtype[2:].lower()}": dtype for dtype in dtypes.FLOAT8},
}  # fmt: skip
#: The types whose elements NumPy arrays hold as plain words.
_BITS = ("bf16", *dtypes.FLOAT8)


def compare_arrays(
    actual: object,
    expected: object,
    rules: Rules,
    *,
    dtype: str | None = None,
    golden: bool = False,
    name: str = "",
    full: bool = False,
) -> Comparison:
    """Compare; see :func:`mlir_matrix.compare.compare`."""
    left, left_type = _stored(actual, dtype, "actual")
    right, right_type = (_golden(expected), left_type) if golden else _stored(expected, dtype, "expected")
    told = _told(name, left_type, left, rules, golden=golden)
    unfit = _unfit(left, right, left_type, right_type, golden=golden)
    if unfit:
        return Comparison({**told, "outcome": "mismatch", "reason": unfit}, actual=left, expected=right)
    pair = _Pair(left, right, left_type, rules, golden, told)
    return pair.whole() if full or rules.norms or left.size <= _SMALL else pair.gated()


@dataclass(frozen=True)
class _Pair:
    """Two arrays that can be compared, and the rules."""

    left: Array
    right: Array
    kind: str
    rules: Rules
    golden: bool
    told: Mapping[str, Any]

    def whole(self) -> Comparison:
        """Compare with the census."""
        return self._result(self._judged("numpy"))

    def gated(self) -> Comparison:
        """Compare by counts alone; the census is taken on demand for a mismatch."""
        counts, engine = gate(self.left, self.right, self.kind, self.rules.criteria, golden=self.golden)
        numbers = {key: plain(value) for key, value in asdict(counts).items()}
        known = {**self.told, "elements": self.left.size, **numbers, "engine": engine}
        if counts.wrong or counts.nan_expected == self.left.size:
            known["outcome"] = "mismatch"
            return self._result(known, lambda: self._judged(engine))
        known |= {"outcome": "pass", "reason": _right(known)}
        return self._result(known)

    def _result(self, known: Mapping[str, Any], census: Callable[[], Mapping[str, Any]] | None = None) -> Comparison:
        return Comparison(known, census=census, actual=self.left, expected=self.right, criteria=self.rules.criteria)

    def _judged(self, engine: str) -> dict[str, Any]:
        record = {**self.told, **self._census(), "engine": engine}
        unlike = record["nan_mismatches"] + record["inf_mismatches"]
        wrong = record["wrong"] if self.rules.elementwise else unlike
        if record["nan_expected"] == self.left.size:
            reason = "nothing but NaN is expected, which proves nothing"
        else:
            reason = _explain(record) if wrong else self.rules.norms.broken(record) if self.rules.norms else ""
        fine = _right(record) if self.rules.elementwise else "the norms are within their bounds"
        record |= {"outcome": "mismatch" if reason else "pass", "reason": reason or fine}
        if wrong and self.left.size <= _GUESSABLE:
            looks = diagnose(self.left, self._expected(self.right), self.kind, self.rules.criteria)
            record |= {"looks": looks} if looks else {}
        return record

    def _census(self) -> dict[str, Any]:
        census = CensusCounter(self.left.shape, self.kind, criteria=self.rules.criteria)
        for start, stored, expected in blocks(self.left, self.right):
            census.add_block(start, stored, self._expected(expected))
        return census.result()

    def _expected(self, stored: Array) -> Array:
        return stored if self.golden else dtypes.decode(stored, self.kind)


def _told(name: str, kind: str, array: Array, rules: Rules, *, golden: bool) -> dict[str, Any]:
    """Return the part of the record that does not depend on the comparison."""
    criteria = rules.criteria
    exact = rules.elementwise and not (criteria.atol or criteria.rtol or criteria.max_ulp is not None)
    record: dict[str, Any] = {
        "name": name, "dtype": kind, "shape": list(array.shape), "compare": "exact" if exact else "numeric",
        "atol": plain(criteria.atol), "rtol": plain(criteria.rtol),
    }  # fmt: skip
    if criteria.max_ulp is not None:
        record["ulp_bound"] = plain(criteria.max_ulp)
    return record | ({"golden": True} if golden else {})


def _stored(array: object, dtype: str | None, side: str) -> tuple[Array, str]:
    """Return the array as we store it, and our name of its type. Raise ValueError for anything but numbers."""
    values = _array(array, side)
    if values.dtype.hasobject or values.dtype.fields or values.dtype.kind in "SUMmO":
        raise ValueError(f"{side} holds {values.dtype}, not numbers")
    if dtype is not None:
        return _as(values, dtype, side), dtype
    kind = _NAMES.get(values.dtype.name)
    if kind is None:
        raise ValueError(f"{side} holds {values.dtype}, which is none of {', '.join(dict.fromkeys(_NAMES.values()))}")
    if kind in _BITS:
        return values.view(STORAGE[kind]), kind
    return values, kind


def _array(array: object, side: str) -> Array:
    """Convert to an array. Raise ValueError if NumPy cannot, or if a mask would be lost."""
    if np.ma.isMaskedArray(array):
        raise ValueError(f"{side} is a masked array; compare its filled() or compressed()")
    try:
        return np.asarray(array)
    except Exception as error:
        raise ValueError(f"{side} cannot be converted to an array: {type(error).__name__}: {error}") from error


def _as(values: Array, dtype: str, side: str) -> Array:
    """Return elements of a type that NumPy may lack, stored as words of its width."""
    if dtype not in STORAGE:
        raise ValueError(f"there is no dtype {dtype!r}; there are {', '.join(STORAGE)}")
    wanted = STORAGE[dtype]
    if values.dtype == wanted or values.dtype.newbyteorder("<") == wanted:
        return values
    bits = dtype in _BITS and values.dtype.itemsize == wanted.itemsize and values.dtype.kind in "uiV"
    if bits or _NAMES.get(values.dtype.name) == dtype:
        return values.view(wanted)
    raise ValueError(f"{side} holds {values.dtype}, which is not how {dtype} is stored ({wanted})")


def _golden(array: object) -> Array:
    values = _array(array, "expected")
    if values.dtype.hasobject or values.dtype.kind not in "fcbiu":
        raise ValueError(f"expected holds {values.dtype}, not numbers")
    return values


def _unfit(left: Array, right: Array, left_type: str, right_type: str, *, golden: bool) -> str:
    """Return why the arrays cannot be compared: first the dtype, then the shape."""
    if golden:
        if right.dtype != dtypes.golden_storage(left_type):
            return f"a golden of {left_type} holds {dtypes.golden_storage(left_type)}, not {right.dtype}"
    elif left_type != right_type:
        return f"the dtype is {left_type}, not {right_type}"
    for array, side in ((left, "actual"), (right, "expected")):
        if not array.dtype.isnative:
            return f"{side} is big-endian ({array.dtype.str}); what is compared is little-endian ({STORAGE[left_type].str})"
    if left.shape != right.shape:
        same = f"; both have {left.size} elements" if left.size == right.size else ""
        return f"the shape is {list(left.shape)}, not {list(right.shape)}{same}"
    return "" if left.size else f"there are no elements (shape {list(left.shape)}): nothing was compared"


def _right(record: Mapping[str, Any]) -> str:
    if float(record["max_ulp"]) == 0:
        return f"all {record['elements']} elements are equal"
    return f"within the bound; the worst error takes {100 * float(record['error_used']):.3g} % of it"


def _explain(record: Mapping[str, Any]) -> str:
    worst = record["worst"][0]
    error = "" if worst["abs"] == "nan" else f", off by {float(worst['abs']):.3g} ({worst['ulp']:.6g} ulp)"
    if record["dtype"] not in ROUNDED:
        error = ""
    place = f"worst at {worst['index']}: actual {worst['actual']}, expected {worst['expected']}{error}"
    return f"{record['wrong']} of {record['elements']} elements ({record['wrong_percent']:.3g} %) are wrong; {place}"
