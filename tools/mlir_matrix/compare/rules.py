"""The rules of a comparison: bounds on elements, and on whole arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from mlir_matrix.actions.expr.expression import ExpressionError
from mlir_matrix.actions.numerics.criteria import Criteria, Special, Subnormals, Zeros
from mlir_matrix.catalog.bounds import evaluate


@dataclass(frozen=True, kw_only=True)
class Norms:
    """Bounds on outputs as a whole: norms of the error by those of what is expected, and the cosine between the two."""

    l1: float | None = None
    l2: float | None = None
    max: float | None = None
    cosine: float | None = None

    def __bool__(self) -> bool:
        return any(value is not None for value in asdict(self).values())

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not (value >= 0 or (name == "cosine" and value >= -1)):
                raise ValueError(f"the bound on {name} is {value!r}; it is {'-1' if name == 'cosine' else '0'} or more")

    def broken(self, record: Mapping[str, Any]) -> str:
        """Return which bound does not hold, in words; empty if all do."""
        for name, bound in (("l1", self.l1), ("l2", self.l2), ("max", self.max)):
            found = float(record["norms"][name]["rel"])
            if bound is not None and not found <= bound:
                return f"the {name} norm of the error is {found:.3g} of that of what is expected, over {bound:g}"
        found = float(record["cosine"])
        if self.cosine is not None and not found >= self.cosine:
            return f"the cosine is {found:.9g}, under {self.cosine:g}"
        return ""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """All that must hold."""

    criteria: Criteria = field(default_factory=Criteria)
    norms: Norms = field(default_factory=Norms)
    #: False if only norms are given. Then single elements are not bounded, except NaN and infinities.
    elementwise: bool = True


def rules(
    *,
    atol: float | None = None,
    rtol: float | None = None,
    max_ulp: float | None = None,
    l1: float | None = None,
    l2: float | None = None,
    max_norm: float | None = None,
    cosine: float | None = None,
    nan: Special = "same",
    inf: Special = "same",
    zeros: Zeros = "same",
    subnormals: Subnormals = "keep",
) -> Rules:
    """Return the rules for bounds and policies (:class:`Criteria`). Raise ValueError."""
    norms = Norms(l1=l1, l2=l2, max=max_norm, cosine=cosine)
    criteria = Criteria(
        atol=atol or 0.0, rtol=rtol or 0.0, max_ulp=max_ulp, nan=nan, inf=inf, zeros=zeros, subnormals=subnormals
    )
    elementwise = not norms or not (atol is None and rtol is None and max_ulp is None)
    return Rules(criteria=criteria, norms=norms, elementwise=elementwise)


def read_bound(value: float | str) -> float:
    """Return the bound that ``1e-6``, ``"1e-6"`` or ``"8*eps(f32)"`` stands for. Raise ValueError."""
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
        raise ValueError(f"{value} is no bound; it must be 0 or more")
    return number
