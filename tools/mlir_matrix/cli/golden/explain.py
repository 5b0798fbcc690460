"""``matrix golden explain``: show which bounds apply to a test, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import (
    cache_option,
    catalog_option,
    format_option,
    limits_options_without_jobs,
    pin_option,
    session,
)
from mlir_matrix.errors import UsageError
from mlir_matrix.execute.action_cache import ActionCache, LostBlob
from mlir_matrix.execute.lookup import cached_result
from mlir_matrix.execute.options import Limits
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.explain import explain as explain_test
from mlir_matrix.expand.select import whole_catalog
from mlir_matrix.judge.run import run_graph
from mlir_matrix.plan.goldens import plan_magnitudes
from mlir_matrix.report.tolerance_text import explained, to_text
from mlir_matrix.session import Session

if TYPE_CHECKING:
    from mlir_matrix.report.schemas.verdict import Verdict


@click.command(
    "explain",
    cls=Verb,
    examples=(
        "matrix golden explain pytorch/linalg-loops/x86_64/matmul",
        "matrix golden explain mlir/math-poly/x86_64/tanh --format json",
    ),
)
@click.argument("identifier", metavar="ID")
@catalog_option
@pin_option
@cache_option
@limits_options_without_jobs
@format_option("text", "json")
def explain(
    identifier: str,
    catalogs: tuple[Path, ...],
    pins: tuple[str, ...],
    cache_dir: Path | None,
    limits: Limits,
    form: str,
) -> None:
    """Show the tolerance layers that apply to the outputs of test ID, and the winning bounds in numbers.

    Nothing is run except a check of the goldens. If the last verdict is cached, its share of the bounds is shown.
    """
    current = session(catalogs, cache_dir, pins=pins)
    test = _find(current, identifier)
    workload = current.catalog.workloads[test.workload]
    document = explained(
        test.id,
        workload.document,
        current.numerics.stated(test.workload, test.target, test.pipeline),
        {name: current.tolerance(test, name) for name in workload.document.outputs},
        magnitudes=_magnitudes(current, test, limits),
        last=_last_verdict(current, test),
    )
    click.echo(json.dumps(document, indent=1) if form == "json" else to_text(document), nl=form == "json")


def _find(current: Session, identifier: str) -> Test:
    expansion = whole_catalog(current.catalog, [identifier], pins=current.pins)
    # It says what is wrong with the name of a test that there is not.
    test = explain_test(current.catalog, expansion, identifier).test
    if test.is_ir:
        raise UsageError(f"{test.id} is an IR test: its text is checked, and no tolerance applies")
    return test


def _magnitudes(current: Session, test: Test, limits: Limits) -> Mapping[str, Mapping[str, float]]:
    """How large the elements of the goldens are; nothing, and why, where they cannot be measured."""
    graph, action = plan_magnitudes(
        current.catalog, current.catalog.workloads[test.workload], current.pins.reference("numpy")
    )
    done = run_graph(current, graph, limits=limits)[action].result
    if not done.ok:
        click.echo(f"matrix: goldens are not measured: {done.outcome['reason']}", err=True)
        return {}
    found: dict[str, dict[str, float]] = json.loads(
        ActionCache(current.home.actions).read_blob(done.outputs["magnitudes"])
    )
    return found


def _last_verdict(current: Session, test: Test) -> Verdict | None:
    """The verdict that a run would find in the cache."""
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
        verdict: Verdict = json.loads(store.read_blob(result.outputs["verdict"]))
    except LostBlob:
        return None
    return verdict
