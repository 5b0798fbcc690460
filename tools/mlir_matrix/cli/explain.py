"""``matrix explain``: show everything that decides one test."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mlir_matrix.catalog.catalog import DEFAULT_SUITE
from mlir_matrix.cli.lazy import Verb
from mlir_matrix.cli.options import catalog_option, environment_option, format_option, pin_option, session
from mlir_matrix.environments.resolve import ResolvedEnvironment, UnavailableEnvironment
from mlir_matrix.execute.plan_document import action_document, environment_document
from mlir_matrix.execute.worker_process import bound
from mlir_matrix.expand.expansion import Expansion, Test
from mlir_matrix.expand.explain import explain
from mlir_matrix.expand.select import choose, whole_catalog
from mlir_matrix.expand.suite import varied
from mlir_matrix.plan.graph import Action
from mlir_matrix.session import Session


@click.command(
    "explain",
    cls=Verb,
    examples=(
        "matrix explain pytorch/linalg-loops/x86_64/mlp",
        "matrix explain jax/tosa-loops/x86_64/mlp --format json",
    ),
)
@click.argument("identifier", metavar="ID")
@click.option(
    "--suite",
    default=None,
    metavar="SUITE",
    help=f"Explain the rules of SUITE. Default: {DEFAULT_SUITE}, else another suite that has the test.",
)
@catalog_option
@pin_option
@environment_option
@format_option("text", "json")
def command(
    identifier: str,
    suite: str | None,
    catalogs: tuple[Path, ...],
    pins: tuple[str, ...],
    swaps: dict[str, str],
    form: str,
) -> None:
    """Show everything that decides test ID: rules, route, parameters, actions, environments, tolerance layers.

    Each rule has its file and line.
    """
    current = session(catalogs, swaps=swaps, pins=pins)
    expansion, *others = _holders(current, identifier, suite)
    test = expansion.test(identifier)
    details = _details(current, test, text=form == "text") if test and test.selected else {}
    explanation = explain(current.catalog, expansion, identifier, others=others, **details)
    click.echo(
        json.dumps(explanation.to_json(), indent=1) if form == "json" else explanation.to_text(), nl=form == "json"
    )


def _holders(current: Session, identifier: str, suite: str | None) -> list[Expansion]:
    """Whose rules decide a test, first of all the one that is explained: a suite, or the catalog where none has the test."""
    if suite is not None:
        return list(choose(current.catalog, [suite], pins=current.pins).expansions)
    # A suite that runs over the releases of a component has nothing to say where one of them is pinned.
    suites = [
        name
        for name, entry in sorted(current.catalog.suites.items(), key=lambda each: each[0] != DEFAULT_SUITE)
        if not list(varied(entry, current.pins))
    ]
    found = choose(current.catalog, suites, pins=current.pins).expansions if suites else ()
    holders = [expansion for expansion in found if expansion.test(identifier)]
    return holders or [whole_catalog(current.catalog, [identifier], pins=current.pins)]


Rows = list[dict[str, Any]]


def _details(current: Session, test: Test, *, text: bool) -> dict[str, Rows]:
    """What running the test takes: its actions, their environments, the tolerance layers of its outputs."""
    plan = current.plan([test])
    chain = [plan.graph.actions[name] for name in plan.graph.needed_by(plan.verdicts[test.id])]
    environments: Rows = []
    found = current.environments(action.environment for action in chain)
    seen = {name: _seen(environment, current) for name, environment in found.items()}
    shared = set.intersection(*({*paths} for paths in seen.values())) if text and all(seen.values()) else set()
    for name, environment in found.items():
        entry = environment_document(environment, current)
        for key in ("units", "packages", "missing", "bytes"):
            entry.pop(key, None)
        own = [path for path in seen[name] if path not in shared]
        environments.append(_environment_words(entry, own) if text else {**entry, "bound": own})
    environments += [{"all of them": f"the machine's files{_paths(sorted(shared))}"}] if shared else []
    outputs = () if test.is_ir else current.catalog.workloads[test.workload].document.outputs
    layers = [(output, layer) for output in outputs for layer in current.considered_layers(test, output)]
    return {
        "actions": [
            {action.id: _action_words(action)} if text else dict(action_document(action, plan.graph))
            for action in chain
        ],
        "environments": environments,
        "tolerances": [
            {output: _layer_words(layer)} if text else {"output": output, **layer} for output, layer in layers
        ],
    }


def _action_words(action: Action) -> str:
    devices: Sequence[str] = action.params.get("devices", ())
    return f"in {action.environment}" + (f", with {' and '.join(devices)} where granted" if devices else "")


def _seen(environment: ResolvedEnvironment | UnavailableEnvironment, current: Session) -> list[str]:
    """What of this machine's files its actions can read; nothing where it is not installed."""
    home = current.home
    if isinstance(environment, UnavailableEnvironment) or environment.missing(home.packages):
        return []
    paths: list[str] = bound(environment, store=home.packages, bytecode=home.bytecode)["bound"]
    return paths


def _paths(paths: Sequence[str]) -> str:
    return "".join(f"\n    reads {path}" for path in paths)


def _environment_words(entry: dict[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    pins = ", ".join(f"{component} {release}" for component, release in entry.get("pins", {}).items())
    facts = [pins, entry.get("interpreter", ""), entry.get("unavailable", "")]
    facts += [f"digest {entry['digest'][:16]}"] if "digest" in entry else []
    return {entry["name"]: "; ".join(fact for fact in facts if fact) + _paths(paths)}


def _layer_words(layer: dict[str, Any]) -> str:
    if "atol" not in layer:
        return f"{layer['layer']} {layer['why']}"
    return f"{layer['layer']} {layer['why']}: atol {layer['atol']}, rtol {layer['rtol']}\n" + textwrap.fill(
        layer["rationale"], 96, initial_indent="    ", subsequent_indent="    "
    )
