"""``matrix report support``: what works on which path and target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
from click.core import ParameterSource

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.cli import options
from mlir_matrix.cli.output import report_trim, show
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.eviction import trim_cache
from mlir_matrix.execute.progress import shown
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.request import ExecutorOptions, Limits
from mlir_matrix.plan.session import plan_tests, select_tests
from mlir_matrix.results.recorded import recorded_results
from mlir_matrix.results.run_plan import run_all
from mlir_matrix.support.imports import imports_of, operators_by_test
from mlir_matrix.support.report import markdown, text
from mlir_matrix.support.support import report, select_operators


@verb(
    "support",
    "matrix report support 'pytorch/tosa-*/*/*'",
    "matrix report support --by operator 'pytorch/tosa-loops/{x86_64,aarch64}/*'",
    "matrix report support --operator aten.softmax.int 'pytorch/**'",
    "matrix report support smoke --format markdown > support.md",
    "matrix report support --results results.json --format json",
)
@options.tests
@click.option(
    "--by",
    type=click.Choice(("workload", "operator")),
    default="workload",
    show_default=True,
    help="Report workloads, or the operators of their imported IR.",
)
@click.option(
    "--operator",
    "wanted",
    multiple=True,
    metavar="NAME|GLOB",
    help="Report this operator, and run only tests with it. The dialect may be left out. Repeatable.",
)
@options.documents
@options.session(*options.releases, options.cache)
@options.output_format("text", "markdown", "json")
@options.limits
@options.executor
@options.quiet
def support_command(
    tests: tuple[str, ...],
    by: str,
    wanted: tuple[str, ...],
    documents: tuple[Path, ...],
    current: Session,
    form: str,
    limits: Limits,
    executor: ExecutorOptions,
    quiet: bool,
) -> int:
    """Show which workloads or operators get through which pipeline to which target.

    Tests run as matrix run would run them; what is cached does not run again. An operator works if a test that contains it passes.
    If the error of a test names an operator, the test says nothing of its others.

    Exit code: 0 the report is complete; 2 no such test or operator; 3 the infrastructure failed.
    """
    contained: Mapping[str, frozenset[str]] | None = None
    chosen: frozenset[str] = frozenset()
    if documents:
        if wanted or by == "operator":
            raise UsageError("--results has no operators; leave it out, and results come from the action cache")
        context = click.get_current_context()
        # The suite of a project is what runs, and no filter on results.
        given = tests if context.get_parameter_source("tests") == ParameterSource.COMMANDLINE else ()
        results = recorded_results(documents, current, given)
    else:
        plan = plan_tests(current, (test for test in select_tests(current, tests, executor.devices) if not test.is_ir))
        if not plan.tests:
            raise UsageError(f"{' '.join(tests)}: only IR tests of steps, which are on no path")
        if wanted or by == "operator":
            contained = _operators(current, plan, limits, quiet=quiet)
        if wanted and contained is not None:
            chosen = select_operators(wanted, frozenset().union(*contained.values()))
            holders = {(test.framework, test.workload) for test in plan.tests if chosen & contained.get(test.id, set())}
            plan = plan.only(test for test in plan.tests if (test.framework, test.workload) in holders)
        run = run_all(current, plan, executor, limits, quiet=quiet)
        results = run.results
        if run.executed:
            report_trim(*trim_cache(current.home), quiet=quiet)
    document = report(results, contained=contained, wanted=chosen)
    if form == "markdown":
        click.echo(markdown(document), nl=False)
    else:
        show(form, document, text(document), markup=True)
    broken = any(result.outcome == Outcome.INFRA_ERROR for result in results)
    return InfrastructureError.exit_code if broken else 0


def _operators(current: Session, plan: PlannedTests, limits: Limits, *, quiet: bool) -> dict[str, frozenset[str]]:
    """Import workloads; return the operators of the IR by test."""
    actions, imports = plan.graph.actions, imports_of(plan)
    with shown(quiet=quiet) as listener:
        done = run_graph(
            current, Graph({name: actions[name] for name in imports.values()}), limits=limits, listener=listener
        )
    return operators_by_test(imports, {name: each.result for name, each in done.items()}, current.home)
