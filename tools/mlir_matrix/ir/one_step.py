"""Plan one step on a file of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import check_known
from mlir_matrix.catalog.run_lines import ParameterError, values_of
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.recipes import Unsupported
from mlir_matrix.expand.routes import Connector
from mlir_matrix.ir.levels import PROBLEM
from mlir_matrix.plan.chains import Chains
from mlir_matrix.plan.graph import File, Graph
from mlir_matrix.plan.levels import Level


def plan_step(
    session: Session, name: str, file: Path, words: Sequence[str], *, printing: bool = False
) -> tuple[Session, Graph, Level]:
    """Plan a step on a file: return a session that knows the file's folder, the graph, and the level that the step gives.

    ``words``: values of parameters, ``rows=4``. ``printing``: the level is the IR after each pass. Raise UsageError for an unknown
    step or parameter, and for a step that the pinned releases do not have.
    """
    check_known("step", [name], session.catalog.steps)
    step = session.catalog.steps[name]
    if not file.is_file():
        raise UsageError(f"{file}: is no plain file" if file.exists() else f"{file}: there is no such file")
    file = file.absolute()
    try:
        values = values_of(step.document, words)
    except ParameterError as error:
        raise UsageError(str(error)) from None
    catalog = replace(session.catalog, roots=(*session.catalog.roots, file.parent))
    resolved_step = Connector(catalog, session.pins).step_alone(step.name)
    if isinstance(resolved_step, Unsupported):
        raise UsageError(resolved_step.reason)
    graph = Graph()
    chains = Chains(catalog, graph, session.pins.reference("numpy"), session.pins)
    source = File(len(catalog.roots) - 1, file.name)
    # What breaks a contract is to be seen.
    made = chains.step(step.name, resolved_step, source, tuple(values.items()), held=False)
    level = Level(step.name, graph.actions[made.action], made.output)
    if printing:
        graph, level = _printing(level)
    return replace(session, catalog=catalog), graph, level


def _printing(level: Level) -> tuple[Graph, Level]:
    """Return a graph that prints the IR after each pass of a step, and its level. Raise UsageError without passes."""
    action = level.action
    if action.tool != "passes":
        raise UsageError(f"step {level.name} runs {action.tool}, no passes; leave out --print-ir-after-all")
    graph = Graph()
    identifier = graph.add(
        action.label,
        tool="print_passes",
        stage=action.stage,
        environment=action.environment,
        params=action.params,
        inputs=action.inputs,
        outputs={"printed": "printed.mlir", PROBLEM: "problem.txt"},
    )
    return graph, Level(level.name, graph.actions[identifier], "printed")
