"""Find the levels of a test: what each importer and step gives, from the source to what the target runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.names import did_you_mean, printable
from mlir_matrix.catalog.catalog import Entry
from mlir_matrix.catalog.models.base import Parameter, ParameterValue, Step
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache, Result
from mlir_matrix.expand.recipes import Unsupported
from mlir_matrix.expand.routes import Connector
from mlir_matrix.plan.chains import Chains
from mlir_matrix.plan.graph import File, Graph, PlannedAction
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.request import Limits
from mlir_matrix.results.locations import locations_of
from mlir_matrix.results.run_plan import run_graph

#: The input of a step.
_IR = "ir"
_STAGES = (Stage.IMPORT, Stage.LOWER, Stage.CODEGEN)


@dataclass(frozen=True)
class Level:
    """What an importer or a step gives."""

    #: ``import``, or the name of the step; the second time ``canonical#2``.
    name: str
    action: PlannedAction
    output: str


def levels_of(plan: PlannedTests, test: str) -> list[Level]:
    """Return the levels of a test, in the order of its steps."""
    counts: dict[str, int] = {}
    found = []
    for identifier in plan.needed_by(test):
        action = plan.graph.actions[identifier]
        imported = action.stage == Stage.IMPORT and action.label.startswith("import/")
        if action.stage not in _STAGES or not (imported or _IR in action.inputs):
            continue
        name = "import" if imported else action.label
        counts[name] = counts.get(name, 0) + 1
        spelled = name if counts[name] == 1 else f"{name}#{counts[name]}"
        found.append(Level(spelled, action, next(iter(action.outputs))))
    return found


def between(levels: Sequence[Level], *, after: str | None, before: str | None) -> Level:
    """Return the level after a step, or before it; by default the last one. Raise UsageError for an unknown step."""
    names = [level.name for level in levels]
    wanted = after or before
    if wanted is None:
        return levels[-1]
    if wanted not in names:
        near = did_you_mean(wanted, names, listed=False) or f"; its steps are {', '.join(names)}"
        raise UsageError(f"the test has no step {printable(wanted)}{near}")
    at = names.index(wanted)
    if before is not None:
        if at == 0:
            raise UsageError(f"nothing comes before {wanted}, the first step")
        at -= 1
    return levels[at]


def read_levels(
    session: Session, graph: Graph, levels: Sequence[Level], limits: Limits
) -> tuple[list[tuple[Level, bytes]], str]:
    """Execute what the levels need, from the cache where it is known.

    Return each level with its bytes up to the first one that fails, and why that fails; empty if none does. Raise
    InfrastructureError if the machine fails.
    """
    needed = dict.fromkeys(name for level in levels for name in graph.needed_by(level.action.id))
    done = run_graph(session, Graph({name: graph.actions[name] for name in needed}), limits=limits)
    store = ActionCache(session.home.actions)
    found: list[tuple[Level, bytes]] = []
    for level in levels:
        result = done[level.action.id].result
        if not result.ok:
            locate = locations_of(graph, level.action.id, level.action.id, session.catalog.roots, "")
            return found, locate(_reason(level, result))
        found.append((level, store.read_blob(result.outputs[level.output])))
    return found, ""


def _reason(level: Level, result: Result) -> str:
    outcome = result.outcome
    reason = f"{level.name}: {outcome['outcome']}: {outcome['reason']}"
    if outcome["outcome"] == Outcome.INFRA_ERROR:
        raise InfrastructureError(reason)
    diagnostics = outcome.get("diagnostics", "").strip()
    return f"{reason}\n{diagnostics}" if diagnostics else reason


def plan_step(
    session: Session, step: Entry[Step], file: Path, values: Mapping[str, ParameterValue]
) -> tuple[Session, Graph, Level]:
    """Plan a step on a file: return a session that knows the file's folder, the graph, and the level that the step gives.

    Raise UsageError for a step that the pinned releases do not have.
    """
    parameters = {
        name: Parameter(description=parameter.description, default=values.get(name, parameter.default))
        for name, parameter in step.document.parameters.items()
    }
    changed = replace(step, document=step.document.model_copy(update={"parameters": parameters}))
    catalog = session.catalog
    catalog = replace(catalog, roots=(*catalog.roots, file.parent), steps={**catalog.steps, step.name: changed})
    resolved_step = Connector(catalog, session.pins).step_alone(step.name)
    if isinstance(resolved_step, Unsupported):
        raise UsageError(resolved_step.reason)
    graph = Graph()
    chains = Chains(catalog, graph, session.pins.reference("numpy"), session.pins)
    made = chains.step(step.name, resolved_step, File(len(catalog.roots) - 1, file.name))
    return replace(session, catalog=catalog), graph, Level(step.name, graph.actions[made.action], made.output)
