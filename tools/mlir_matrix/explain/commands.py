"""``matrix explain``: show everything that decides one test."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
from mlir_matrix.expand.explain import explain
from mlir_matrix.expand.select import choose, identifiers, whole_catalog
from mlir_matrix.expand.suite import varied
from mlir_matrix.expand.tolerances import Tolerances
from mlir_matrix.explain.oracles import ask, oracles_of
from mlir_matrix.plan.graph import Action, Graph
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests
from mlir_matrix.results.report.progress import shown_tests


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
        test = holders[0].test(identifier)
        details = _details(current, test, text=form == "text") if test and test.selected else {}
        found.append(explain(current.catalog, holders[0], identifier, others=holders[1:], **details))
    show_each(form, tests, [each.to_json() for each in found], (each.to_text().splitlines() for each in found))
    return 0


def _show_oracles(
    current: Session, tests: Sequence[str], among: Sequence[Expansion], form: str, limits: Limits, *, quiet: bool
) -> int:
    from mlir_matrix.explain.report import oracles_text  # imports rich

    found = [explain(current.catalog, among[0], identifier).test for identifier in identifiers(among[:1], tests)]
    if any(map(is_glob, tests)):
        found = [test for test in found if test and test.selected and test.executes]
    if not found:
        raise UsageError(f"{' '.join(tests)}: none of these tests runs and compares outputs with a golden")
    asked = []
    for test in filter(None, found):
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
    # A suite that varies the releases of a component is empty if one of them is pinned.
    suites = [
        name
        for name, entry in sorted(current.catalog.suites.items(), key=lambda each: each[0] != DEFAULT_SUITE)
        if not list(varied(current.catalog, entry, current.pins))
    ]
    return choose(current.catalog, suites, pins=current.pins).expansions if suites else ()


Rows = list[dict[str, Any]]


def _details(current: Session, test: Test, *, text: bool) -> dict[str, Rows]:
    """Return the actions of a test, their environments, and the tolerance layers of its outputs."""
    plan = plan_tests(current, [test])
    chain = [plan.graph.actions[name] for name in plan.needed_by(test.id)]
    found = current.environments(action.environment for action in chain)
    readable = {name: _readable(environment, current) for name, environment in found.items()}
    shared = set.intersection(*map(set, readable.values())) if text and readable else set()
    environments: Rows = []
    for name, environment in found.items():
        entry = environment_document(environment, current)
        entry = {key: value for key, value in entry.items() if key not in ("units", "packages", "missing", "bytes")}
        own = [path for path in readable[name] if path not in shared]
        environments.append(_environment_words(entry, own) if text else {**entry, "bound": own})
    environments += [{"all of them": f"the machine's files{_paths(sorted(shared))}"}] if shared else []
    tolerances = Tolerances(current.catalog)
    outputs = _outputs(current, test, tolerances)
    layers = [(output, layer) for output in outputs for layer in tolerances.considered(test, output)]
    layers += _oracle(current, test)
    scaled = {action.id: _scaled(current, plan.graph, action, found) for action in chain}
    return {
        "actions": [
            {action.id: _action_words(action), "scaled": scaled[action.id]}
            if text
            else {**action_document(action, plan.graph), **({"scaled": scaled[action.id]} if scaled[action.id] else {})}
            for action in chain
        ],
        "environments": environments,
        "tolerances": [
            {output: _layer_words(layer)} if text else {"output": output, **layer} for output, layer in layers
        ],
    }


def _outputs(current: Session, test: Test, tolerances: Tolerances) -> Iterable[str]:
    """Return the outputs of a test; of a program in a foreign form the dtypes that they may have, if layers differ."""
    if not test.executes:
        return ()
    document = current.catalog.workloads[test.workload].document
    if not document.source:
        return document.outputs
    return {tolerances.of(test, dtype).location: dtype for dtype in ("f64", "f16", "bf16", "f32")}.values()


def _oracle(current: Session, test: Test) -> list[tuple[str, dict[str, Any]]]:
    """Return the row of a program in a foreign form, whose expected outputs and bounds are made with it."""
    source = None if test.is_ir else current.catalog.workloads[test.workload].document.source
    form = current.catalog.sources.get(source or "")
    if form is None or not form.document.oracle:
        return []
    own = {
        "layer": form.source.position(),
        "applies": True,
        "why": "expects",
        "oracle": " ".join(form.document.oracle.split()),
    }
    return [("every output", own)]


def _action_words(action: Action) -> str:
    devices: Sequence[str] = action.params.get("devices", ())
    command: Sequence[str] = action.params.get("command", ())
    # A program, a Python file of a catalog, or a tool of the package.
    what = command[0] if command else action.params.get("tool", action.tool)
    return f"{what} in {action.environment}" + (f", with {' and '.join(devices)} if granted" if devices else "")


def _scaled(current: Session, graph: Graph, action: Action, environments: Mapping[str, Environment]) -> str:
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


def _paths(paths: Sequence[str]) -> str:
    return "".join(f"\n    reads {path}" for path in paths)


def _environment_words(entry: dict[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    pins = ", ".join(f"{component} {release}" for component, release in entry.get("pins", {}).items())
    parts = [pins, entry.get("interpreter", ""), entry.get("unavailable", "")]
    parts += [f"digest {entry['digest'][:16]}"] if "digest" in entry else []
    return {entry["name"]: "; ".join(filter(None, parts)) + _paths(paths)}


def _layer_words(layer: dict[str, Any]) -> str:
    if "oracle" in layer:
        return f"{layer['layer']} {layer['why']}\n" + _filled(layer["oracle"])
    if "atol" not in layer:
        return f"{layer['layer']} {layer['why']}"
    return f"{layer['layer']} {layer['why']}: atol {layer['atol']}, rtol {layer['rtol']}\n" + _filled(
        layer["rationale"]
    )


def _filled(text: str) -> str:
    return textwrap.fill(text, 96, initial_indent="    ", subsequent_indent="    ")
