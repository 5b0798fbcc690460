"""Counts and largest errors of a comparison: all that one which passes needs, and what every census begins with."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from mlir_matrix.actions.numerics.criteria import Block


@dataclass
class Counts:
    """What is counted; names as in the census. The order is that of ``Counts`` in ``compare/gate.c``."""

    wrong: int = 0
    over_atol: int = 0
    over_rtol: int = 0
    over_ulp: int = 0
    nan_mismatches: int = 0
    inf_mismatches: int = 0
    nan_expected: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: float = 0.0
    error_used: float = 0.0

    def merge(self, other: Counts) -> None:
        """Add what was counted elsewhere: counts are summed, of floats the larger stays."""
        for field in fields(self):
            mine, its = getattr(self, field.name), getattr(other, field.name)
            setattr(self, field.name, mine + its if isinstance(mine, int) else max(mine, its))


def count(block: Block) -> Counts:
    """The counts of some elements."""
    defined = (block.size > 0) & np.isfinite(block.size)
    floating = block.expected.dtype.kind in "fc"
    return Counts(
        wrong=int(np.count_nonzero(block.wrong)),
        over_atol=int(np.count_nonzero(block.over_atol)),
        over_rtol=int(np.count_nonzero(block.over_rtol)),
        over_ulp=int(np.count_nonzero(block.over_ulp)),
        nan_mismatches=int(np.count_nonzero(block.nan)),
        inf_mismatches=int(np.count_nonzero(block.inf)),
        nan_expected=int(np.count_nonzero(np.isnan(block.expected))) if floating else 0,
        max_abs=float(block.error.max(initial=0.0)),
        max_rel=float(block.relative.max(where=defined, initial=0.0)),
        max_ulp=float(block.ulp.max(initial=0.0)),
        error_used=float(block.used.max(initial=0.0)),
    )
