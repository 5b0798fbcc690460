"""``matrix explain``: everything that decides one test."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mlir_matrix.cli.common import catalog_option, format_option, session
from mlir_matrix.errors import UsageError
from mlir_matrix.explain import explain
from mlir_matrix.plan.serialize import action_document, environment_document
from mlir_matrix.select import DEFAULT_SUITE, choose


@click.command("explain", short_help="Say everything that decides one test.")
@click.argument("identifier", metavar="ID")
@click.option(
    "--suite",
    default=None,
    help=f"The suite whose rules are explained. Default: {DEFAULT_SUITE}, where it has the test.",
)
@catalog_option
@format_option("text", "json")
def command(identifier: str, suite: str | None, catalogs: tuple[Path, ...], form: str) -> None:
    r"""Say everything that decides test ID: rules, steps and parameters, actions, environments, tolerance layers.

    Every rule comes with its file and line.

    \b
      matrix explain pytorch/linalg-loops/x86_64/mlp
    """
    current = session(catalogs)
    expansion = choose(current.catalog, [suite or DEFAULT_SUITE]).expansions[0]
    test = expansion.test(identifier)
    if test is None and suite is None:
        expansion = choose(current.catalog, ["**"]).expansions[0]
        test = expansion.test(identifier)
    if test is None:
        explain(current.catalog, expansion, identifier)
        raise UsageError(f"{identifier} is unknown")
    actions, environments, tolerances = [], [], []
    if test.selected:
        plan = current.plan([test])
        chain = [plan.graph.actions[name] for name in plan.graph.needed_by(plan.verdicts[test.id])]
        actions = [
            action_document(action) if form == "json" else {"action": action.id, "environment": action.environment}
            for action in chain
        ]
        for name, environment in current.environments(action.environment for action in chain).items():
            entry = environment_document(environment, current.pins(name), missing=())
            entry.pop("packages", None)
            entry.pop("missing", None)
            environments.append(entry)
        if not test.is_ir:
            tolerances = [
                {"output": output, **considered}
                for output in current.catalog.workloads[test.workload].document.outputs
                for considered in current.considered_layers(test, output)
            ]
    explanation = explain(
        current.catalog, expansion, identifier, actions=actions, environments=environments, tolerances=tolerances
    )
    click.echo(
        json.dumps(explanation.to_json(), indent=1) if form == "json" else explanation.to_text(), nl=form == "json"
    )
