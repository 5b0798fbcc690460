"""Find the levels of a test: what each importer and step gives, from the source to what the target runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.names import did_you_mean, printable
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache, Result
from mlir_matrix.execute.kept_answers import covers
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.ir.level_file import LevelFile
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.levels import Level, levels_of
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests, select_tests
from mlir_matrix.results.locations import locations_of

#: The output with the reason why a pass failed after some were printed.
PROBLEM = "problem"


class FoundLevels(NamedTuple):
    """The files of levels, why the next level failed (or nothing), and whether the next call gives the same."""

    files: list[LevelFile]
    problem: str
    lasting: bool


def find_levels(
    session: Session, test: str, limits: Limits, *, after: str | None, before: str | None, every: bool
) -> FoundLevels:
    """Execute a test up to a step, or before it; up to each step with ``every``. Raise UsageError, InfrastructureError."""
    found = [each for each in select_tests(session, [test]) if each.id == test]
    if not found:
        raise UsageError(f"{printable(test)}: expected the identifier of one test; matrix plan lists them")
    plan = plan_tests(session, found)
    levels = levels_of(plan, test)
    if not levels:
        raise UsageError(f"{test}: no step of it gives IR")
    if after or before:
        levels = [between(levels, after=after, before=before)]
    files, problem = read_levels(session, plan.graph, levels, limits)
    environments = session.environments(action.environment for action in plan.graph.actions.values())
    locked = all(isinstance(each, ResolvedEnvironment) and each.is_locked for each in environments.values())
    lasting = locked and covers(plan.graph) and not (problem or session.catalog.over)
    return FoundLevels(files, problem, lasting)


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


def read_levels(session: Session, graph: Graph, levels: Sequence[Level], limits: Limits) -> tuple[list[LevelFile], str]:
    """Execute what the levels need, from the cache where it is known.

    Return the file of each level up to the first one that fails, and why that fails; empty if none does. Raise
    InfrastructureError if the machine fails.
    """
    needed = dict.fromkeys(name for level in levels for name in graph.needed_by(level.action.id))
    done = run_graph(session, Graph({name: graph.actions[name] for name in needed}), limits=limits)
    found: list[LevelFile] = []
    for level in levels:
        result = done[level.action.id].result
        locate = locations_of(graph, level.action.id, level.action.id, session.catalog.roots, "")
        if not result.ok:
            return found, locate(_reason(level, result))
        file = level.action.outputs[level.output]
        found.append(LevelFile(level.name, file, result.outputs[level.output]))
        if PROBLEM in result.outputs:
            problem = ActionCache(session.home.actions).read_blob(result.outputs[PROBLEM]).decode(errors="replace")
            return found, locate(f"{level.name}: {problem.strip()}") if problem else ""
    return found, ""


def _reason(level: Level, result: Result) -> str:
    outcome = result.outcome
    reason = f"{level.name}: {outcome['outcome']}: {outcome['reason']}"
    if outcome["outcome"] == Outcome.INFRA_ERROR:
        raise InfrastructureError(reason)
    diagnostics = outcome.get("diagnostics", "").strip()
    return f"{reason}\n{diagnostics}" if diagnostics else reason
