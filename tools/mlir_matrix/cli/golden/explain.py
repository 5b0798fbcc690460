"""``matrix golden explain``: show which bounds apply to a test, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import is_glob
from mlir_matrix.catalog.models.base import FLOATS
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show_each, warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache, LostBlob
from mlir_matrix.execute.lookup import cached_result
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.explain import explain
from mlir_matrix.expand.select import identifiers, whole_catalog
from mlir_matrix.expand.tolerances import Tolerances
from mlir_matrix.judge.run import run_graph
from mlir_matrix.plan.parameters import bounds_of
from mlir_matrix.plan.programs import is_prepared
from mlir_matrix.plan.references import plan_magnitudes
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests
from mlir_matrix.report.tolerance_text import declared, explained, tolerance_lines

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
def explain_command(tests: tuple[str, ...], current: Session, limits: Limits, form: str) -> None:
    """Show the tolerance layers that apply to the outputs of tests, and the winning bounds in numbers.

    Nothing is run except a check of the goldens; a program that others wrote is prepared. If the last verdict is cached, its
    share of the bounds is shown. A pattern stands for supported tests of the whole catalog. JSON is a list, but for one ID.
    """
    found = [_explained(current, test, limits) for test in _find(current, tests)]
    show_each(form, tests, found, map(tolerance_lines, found))


def _explained(current: Session, test: Test, limits: Limits) -> GoldenExplanation:
    document = current.catalog.workloads[test.workload].document
    (magnitudes, scaled), oracle = _magnitudes(current, test, limits), None
    if document.source:
        document = declared(document, magnitudes)
        oracle = current.catalog.sources[str(document.source)].document.oracle
    return explained(
        test.id,
        document,
        Tolerances(current.catalog).numerics.stated(test.workload, test.target, test.framework, test.pipeline),
        # Tolerances of outputs that only the program knows are resolved by their dtype.
        {
            name: Tolerances(current.catalog).of(test, each.dtype if document.source else name)
            for name, each in document.outputs.items()
        },
        magnitudes=magnitudes,
        last=_last_verdict(current, test),
        oracle=oracle,
        scaled=scaled,
    )


def _find(current: Session, arguments: Sequence[str]) -> list[Test]:
    expansion = whole_catalog(current.catalog, arguments, pins=current.pins)
    # Raises UsageError for an unknown test.
    found = [explain(current.catalog, expansion, name).test for name in identifiers([expansion], arguments)]
    if any(map(is_glob, arguments)):
        found = [test for test in found if test.selected and test.executes]
    for test in found:
        if test.without_outputs:
            raise UsageError(f"{test.without_outputs}, and no tolerance applies")
    if not found:
        raise UsageError(f"{' '.join(arguments)}: no tolerance applies to any of these tests")
    return found


def _magnitudes(current: Session, test: Test, limits: Limits) -> tuple[Mapping[str, Mapping[str, Any]], str]:
    """Return the median and the largest element of each golden, none if they cannot be read, and how a program was scaled."""
    workload, bounds = current.catalog.workloads[test.workload], None
    if is_prepared(current.catalog, workload):
        bounds = {
            dtype: bounds_of(current.catalog, Tolerances(current.catalog).of(test, dtype)) for dtype in sorted(FLOATS)
        }
    pins = current.pins.override(test.pins) if test.pins else current.pins
    graph, action = plan_magnitudes(
        current.catalog, workload, current.pins.reference("numpy"), pins=pins, bounds=bounds
    )
    results = run_graph(current, graph, limits=limits)
    scaled = "".join(str(each.result.metrics.get("scaled", "")) for each in results.values())
    done = results[action].result
    if not done.ok:
        what = "goldens are not measured" if bounds is None else f"{test.id}: the program cannot be prepared"
        warn(f"{what}: {done.outcome['reason']}")
        return {}, scaled
    store = ActionCache(current.home.actions)
    return cast("dict[str, dict[str, Any]]", json.loads(store.read_blob(done.outputs["magnitudes"]))), scaled


def _last_verdict(current: Session, test: Test) -> Verdict | None:
    """Return the cached verdict of a test."""
    if test.outcome is not None:
        return None
    plan = plan_tests(current, [test])
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
