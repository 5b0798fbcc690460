"""``matrix golden explain``: show which bounds apply to a test, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from mlir_matrix.cli import options
from mlir_matrix.cli.lazy import verb
from mlir_matrix.cli.output import show_each, warn
from mlir_matrix.errors import UsageError
from mlir_matrix.execute.action_cache import ActionCache, LostBlob
from mlir_matrix.execute.lookup import cached_result
from mlir_matrix.execute.options import Limits
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.explain import explain
from mlir_matrix.expand.select import identifiers, whole_catalog
from mlir_matrix.judge.run import run_graph
from mlir_matrix.names import is_glob
from mlir_matrix.plan.goldens import plan_magnitudes
from mlir_matrix.report.tolerance_text import explained, tolerance_lines
from mlir_matrix.session import Session

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.golden import GoldenExplanation
    from mlir_matrix.report.schemas.verdict import Verdict


@verb(
    "explain",
    "matrix golden explain pytorch/linalg-loops/x86_64/matmul",
    "matrix golden explain 'mlir/math-*/x86_64/tanh' --format json",
)
@options.named_tests
@options.session(*options.releases, options.cache)
@options.limits_without_jobs
@options.output_format("text", "json")
def command(tests: tuple[str, ...], current: Session, limits: Limits, form: str) -> None:
    """Show the tolerance layers that apply to the outputs of tests, and the winning bounds in numbers.

    Nothing is run except a check of the goldens. If the last verdict is cached, its share of the bounds is shown. A pattern stands
    for tests of the whole catalog that are supported. JSON is a list, but for one ID.
    """
    found = [_explained(current, test, limits) for test in _find(current, tests)]
    show_each(form, tests, found, map(tolerance_lines, found))


def _explained(current: Session, test: Test, limits: Limits) -> GoldenExplanation:
    workload = current.catalog.workloads[test.workload]
    return explained(
        test.id,
        workload.document,
        current.numerics.stated(test.workload, test.target, test.framework, test.pipeline),
        {name: current.tolerance(test, name) for name in workload.document.outputs},
        magnitudes=_magnitudes(current, test, limits),
        last=_last_verdict(current, test),
    )


def _find(current: Session, arguments: Sequence[str]) -> list[Test]:
    expansion = whole_catalog(current.catalog, arguments, pins=current.pins)
    # Raises UsageError for an unknown test.
    found = [explain(current.catalog, expansion, name).test for name in identifiers([expansion], arguments)]
    if any(map(is_glob, arguments)):
        found = [test for test in found if test.selected and test.executes]
    for test in found:
        if test.is_ir:
            raise UsageError(f"{test.id} is an IR test: FileCheck checks its text, and no tolerance applies")
        if not test.executes:
            raise UsageError(f"target {test.target} only compiles: there are no outputs, and no tolerance applies")
    if not found:
        raise UsageError(f"{' '.join(arguments)}: no tolerance applies to any of these tests")
    return found


def _magnitudes(current: Session, test: Test, limits: Limits) -> Mapping[str, Mapping[str, float]]:
    """Return the median and the largest element of each golden; nothing if the goldens cannot be read."""
    graph, action = plan_magnitudes(
        current.catalog, current.catalog.workloads[test.workload], current.pins.reference("numpy")
    )
    done = run_graph(current, graph, limits=limits)[action].result
    if not done.ok:
        warn(f"goldens are not measured: {done.outcome['reason']}")
        return {}
    store = ActionCache(current.home.actions)
    return cast("dict[str, dict[str, float]]", json.loads(store.read_blob(done.outputs["magnitudes"])))


def _last_verdict(current: Session, test: Test) -> Verdict | None:
    """Return the cached verdict of a test."""
    if test.outcome is not None:
        return None
    plan = current.plan([test])
    environments = current.environments(action.environment for action in plan.graph.actions.values())
    store = ActionCache(current.home.actions)
    result = cached_result(
        plan.graph, plan.verdicts[test.id], roots=current.catalog.roots, environments=environments, store=store
    )
    if result is None or not result.ok:
        return None
    try:
        return cast("Verdict", json.loads(store.read_blob(result.outputs["verdict"])))
    except LostBlob:
        return None
