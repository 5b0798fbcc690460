"""``matrix explain``: show everything that decides one test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import click

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.actions.runtime.prepared import INTERFACE
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.names import OF, is_glob
from mlir_matrix.base.text import harmless
from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli import options
from mlir_matrix.cli.output import show_each, warn
from mlir_matrix.cli.verbs import verb
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.environments.session import Environment, Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.lookup import cached_result
from mlir_matrix.execute.plan_document import action_document, environment_document
from mlir_matrix.execute.worker_process import bound
from mlir_matrix.expand.expansion import Expansion, Test
from mlir_matrix.expand.select import choose, find_test, identifiers, suites_under, whole_catalog
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.explain.explanation import Explanation, explain
from mlir_matrix.explain.oracles import ask, oracles_of
from mlir_matrix.plan.graph import Graph, PlannedAction
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests
from mlir_matrix.results.report.progress import shown_tests

if TYPE_CHECKING:
    from mlir_matrix.explain.documents import ExplainedAction, ExplainedEnvironment


@verb(
    "explain",
    "matrix explain pytorch/linalg-loops/x86_64/mlp",
    "matrix explain jax/tosa-loops/x86_64/mlp --format json",
    "matrix explain 'onnx/*/x86_64/topk'",
    "matrix explain pytorch/linalg-loops/x86_64/gelu_tanh --oracles",
)
@options.named_tests
@click.option(
    "--suite",
    default=None,
    metavar="SUITE",
    help=f"Explain the rules of SUITE. Default: {DEFAULT_SUITE}, else another suite that has the test.",
)
@click.option(
    "--oracles",
    is_flag=True,
    help="Run the test and its workload through oracles, and show which outputs agree.",
)
@options.session(*options.releases, options.cache)
@options.output_format("text", "json")
@options.limits
@options.quiet
def explain_command(
    tests: tuple[str, ...],
    suite: str | None,
    oracles: bool,
    current: Session,
    form: str,
    limits: Limits,
    quiet: bool,
) -> int:
    """Show everything that decides tests: rules, route, parameters, actions, environments, tolerance layers.

    Each rule has its file and line. A pattern stands for tests of SUITE, by default of the whole catalog. JSON is a list, but for
    one ID.
    """
    expansions = _expansions(current, suite)
    whole = [] if suite else [whole_catalog(current.catalog, tests, pins=current.pins)]
    if oracles:
        return _show_oracles(current, tests, [*whole, *expansions], form, limits, quiet=quiet)
    found = []
    # Only suites have tests with properties.
    among = [*whole, *(expansions if suite or OF in "".join(tests) else ())]
    for identifier in identifiers(among, tests):
        holders = [each for each in expansions if suite or each.test(identifier)] or whole
        explanation = explain(current.catalog, holders[0], identifier, others=holders[1:])
        found.append(_with_details(current, explanation) if explanation.test.selected else explanation)
    show_each(form, tests, [each.to_json() for each in found], (each.to_text().splitlines() for each in found))
    return 0


def _show_oracles(
    current: Session, tests: Sequence[str], among: Sequence[Expansion], form: str, limits: Limits, *, quiet: bool
) -> int:
    from mlir_matrix.explain.report import oracles_text  # imports rich

    found = [find_test(among[0], identifier) for identifier in identifiers(among[:1], tests)]
    if any(map(is_glob, tests)):
        found = [test for test in found if test.selected and test.executes]
    if not found:
        raise UsageError(f"{' '.join(tests)}: none of these tests runs and compares outputs with a golden")
    asked = []
    for test in found:
        try:
            asked.append((test, oracles_of(current, test)))
        except UsageError as error:
            # Of several tests, those that have oracles are shown.
            if len(found) == 1:
                raise
            warn(f"{test.id}: {error}")
    if not asked:
        raise UsageError(f"{' '.join(tests)}: no oracle takes any of these tests")
    with shown_tests(sum(1 + len(oracles) for _, oracles in asked), quiet=quiet) as listener:
        documents = [ask(current, test, oracles, limits, listener) for test, oracles in asked]
    show_each(form, tests, documents, map(oracles_text, documents))
    outcomes = {witness.get("outcome") for document in documents for witness in document["witnesses"]}
    return InfrastructureError.exit_code if Outcome.INFRA_ERROR in outcomes else 0


def _expansions(current: Session, suite: str | None) -> Sequence[Expansion]:
    """Return the suites to explain, the default one first."""
    if suite is not None:
        return choose(current.catalog, [suite], pins=current.pins).expansions
    suites = suites_under(current.catalog, current.pins)
    return choose(current.catalog, suites, pins=current.pins).expansions if suites else ()


#: Keys of the environments of plans that no explanation has.
_LEFT_OUT = ("units", "packages", "missing", "bytes")


def _with_details(current: Session, explanation: Explanation) -> Explanation:
    """Add the actions of a test, their environments, and the tolerance layers of its outputs."""
    test = explanation.test
    plan = plan_tests(current, [test])
    chain = [plan.graph.actions[name] for name in plan.needed_by(test.id)]
    found = current.environments(action.environment for action in chain)
    actions: list[ExplainedAction] = []
    for action in chain:
        entry = cast("ExplainedAction", action_document(action, plan.graph))
        scaled = _scaled(current, plan.graph, action, found)
        if scaled:
            entry["scaled"] = scaled
        actions.append(entry)
    environments = [
        {key: value for key, value in environment_document(each, current).items() if key not in _LEFT_OUT}
        | {"bound": _readable(each, current)}
        for each in found.values()
    ]
    tolerances = ToleranceResolver(current.catalog)
    layers = [
        {"output": output, **layer}
        for output in tolerances.outputs(test)
        for layer in tolerances.considered(test, output)
    ]
    return replace(
        explanation,
        actions=actions,
        environments=cast("list[ExplainedEnvironment]", environments),
        tolerances=layers + _oracle(current, test),
    )


def _oracle(current: Session, test: Test) -> list[dict[str, object]]:
    """Return the row of a program in a foreign form, whose expected outputs and bounds are made with it."""
    source = None if test.is_ir else current.catalog.workloads[test.workload].document.source
    form = current.catalog.sources.get(source or "")
    if form is None or not form.document.oracle:
        return []
    own = {
        "output": "every output",
        "layer": form.source.position(),
        "applies": True,
        "why": "expects",
        "oracle": " ".join(form.document.oracle.split()),
    }
    return [own]


def _scaled(current: Session, graph: Graph, action: PlannedAction, environments: Mapping[str, Environment]) -> str:
    """Return which numbers of a program were made smaller when it was prepared; empty if it was not."""
    if INTERFACE not in action.outputs:
        return ""
    store = ActionCache(current.home.actions)
    result = cached_result(graph, action.id, roots=current.catalog.roots, environments=environments, store=store)
    return harmless(str(result.metrics.get("scaled", ""))) if result else ""


def _readable(environment: ResolvedEnvironment | UnavailableEnvironment, current: Session) -> list[str]:
    """Return the files of this machine that actions in an environment can read; nothing if it is not installed."""
    home = current.home
    if isinstance(environment, UnavailableEnvironment) or environment.missing(home.packages):
        return []
    return list(bound(environment, store=home.packages, bytecode=home.bytecode)["bound"])
