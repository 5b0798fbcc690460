"""Define the model of goldens of costs (``golden/costs.yaml``, ``golden/WORKLOAD/costs.yaml``), and the names of exact costs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictFloat, StrictInt, StrictStr

from mlir_matrix.catalog.models.base import Document, NameGlob, Text, matching

#: The exact costs of a test, which repeat to the unit.
NAMES = (
    "code_bytes", "data_bytes", "instructions", "d1_misses", "ll_misses", "allocations", "peak_bytes", "total_bytes",
    "vector_share",
)  # fmt: skip
#: How the names of further ones begin: ``cycles_znver4``, ``operations_linalg``.
PREFIXES = ("cycles_", "operations_")
#: Of these, more is better; of all others, less.
MORE_IS_BETTER = frozenset({"vector_share"})


def is_cost(name: str) -> bool:
    """Return whether a name is that of an exact cost."""
    return name in NAMES or any(name.startswith(prefix) and name != prefix for prefix in PREFIXES)


Amount = (
    Annotated[StrictInt, Field(ge=0, le=1 << 62)] | Annotated[StrictFloat, Field(ge=0, le=1 << 62, allow_inf_nan=False)]
)
#: How much a cost may differ from its golden.
Bound = (
    Amount
    | Annotated[
        StrictStr,
        matching(
            r"^\d{1,3}(\.\d{1,6})? ?%( \+ \d{1,15}(\.\d{1,6})?)?$",
            "a bound: a number, '1 %' of the golden, or the sum of both: '5 % + 100'",
        ),
    ]
)


class CostMatch(Document):
    """The tests that a layer is for; all given keys must match. Without keys, it is for all tests."""

    workload: tuple[NameGlob, ...] | NameGlob | None = None
    target: tuple[NameGlob, ...] | NameGlob | None = None
    pipeline: tuple[NameGlob, ...] | NameGlob | None = None
    framework: tuple[NameGlob, ...] | NameGlob | None = None


class CostLayer(Document):
    """Goldens of costs, or bounds, for some tests. Each cost is from the most specific layer that has it, each bound, too."""

    match: CostMatch = Field(default_factory=CostMatch)
    costs: dict[StrictStr, Amount] = Field(default={})
    """By name: ``instructions``, ``code_bytes``, ``operations_linalg``, … `matrix golden update --cost` writes them."""
    bounds: dict[StrictStr, Bound] = Field(default={})
    """By name, or how it begins (``cycles_*``): how much a cost may be worse than its golden. Without a bound: not at all."""
    rationale: Text | None = None
    """The reason for the bounds."""


class CostGoldens(Document):
    """Goldens of costs, in layers (``golden/costs.yaml`` for all, ``golden/WORKLOAD/costs.yaml`` for one)."""

    layers: Annotated[tuple[CostLayer, ...], Field(min_length=1)]
