"""Say for the failures of a run which step is wrong, by one test of each cause."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from mlir_matrix.base.errors import MatrixError
from mlir_matrix.base.text import counted
from mlir_matrix.bisect.steps.localize import localize
from mlir_matrix.bisect.steps.passes import find_pass
from mlir_matrix.bisect.steps.report import sentence
from mlir_matrix.plan.request import Request
from mlir_matrix.plan.session import open_session, select_tests
from mlir_matrix.results.repeats import without_copy
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.signature import behaviour

#: No further cause is explained after this time. Seconds.
_BUDGET_S = 120.0


def explain_failures(request: Request, results: Sequence[TestResult]) -> Iterator[str]:
    """Yield a sentence for each cause of the unexpected results, from what is installed."""
    examples = _examples(results)
    session = open_session(
        catalogs=request.catalogs, cache_dir=request.cache_dir, swaps=request.swaps, pins=request.pins,
        permissions=request.permissions, stale_goldens=True,
    )  # fmt: skip
    begun = time.monotonic()
    for number, name in enumerate(examples):
        if time.monotonic() - begun > _BUDGET_S:
            yield f"{counted(len(examples) - number, 'more cause')}: matrix bisect TEST --over steps"
            return
        try:
            (test,) = select_tests(session, [name])
            found = localize(session, test, request.limits, fetching=False)
            inside = find_pass(session, found, request.limits)
        except MatrixError as error:
            yield str(error)
        else:
            yield f"{name}: {sentence(found, inside)}"


def _examples(results: Sequence[TestResult]) -> list[str]:
    """Return one test of each cause: of those that go through the same cell and fail in the same way."""
    found: dict[object, str] = {}
    for result in results:
        if result.fails and not result.identity.is_ir and not result.tested_property:
            found.setdefault((result.framework, result.pipeline, behaviour(result)), without_copy(result.id))
    return list(found.values())
