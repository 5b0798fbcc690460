"""Compute the static part of the keys of a plan's actions: everything that they depend on before they run.

As a program, it reads a :class:`StateRequest` from stdin and writes the :class:`PlanState`, so that the program of another
revision can make the plan of that revision.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from mlir_matrix.base.digest import digest_bytes, digest_if_readable, digest_value
from mlir_matrix.base.errors import MatrixError
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.execute import keys
from mlir_matrix.expand.costs import CostResolver
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.quarantine import ActiveQuarantine
from mlir_matrix.expand.select import choose
from mlir_matrix.plan.graph import File, PlannedAction, Produced
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.session import open_session, plan_tests


class StateRequest(TypedDict):
    """A request for the state of a plan."""

    tests: Sequence[str]
    catalogs: Sequence[str]
    pins: Sequence[str]
    swaps: Mapping[str, str]
    #: The folder with the code of tools; empty for that of the program.
    actions: str


class PlanState(TypedDict):
    """The static inputs of the actions of a plan."""

    #: By test: its last action, the expected outcome, and the digest of the reference.
    tests: dict[str, list[str]]
    #: Identifiers of actions, which digest everything that the catalogs' YAML files say about an action.
    actions: list[str]
    #: Digest by name, or the reason why an environment is unavailable.
    environments: dict[str, str]
    #: Digests by tool and backend, and of files by number of the catalog and path.
    tools: dict[str, str]
    files: dict[str, str]


def state_of(session: Session, plan: PlannedTests) -> PlanState:
    """Return the static inputs of the actions of a plan. A missing file has no digest."""
    state: PlanState = {"tests": {}, "actions": list(plan.graph.actions), "environments": {}, "tools": {}, "files": {}}
    environments = session.environments(action.environment for action in plan.graph.actions.values())
    quarantine, goldens = ActiveQuarantine(session.catalog, ""), CostResolver(session.catalog)
    used = {test.workload for test in plan.tests if not test.is_ir}
    references = {name: digest_if_readable(session.catalog.workloads[name].reference) for name in used}
    for test in plan.tests:
        if test.id in plan.verdicts:
            reference = "" if test.is_ir else references[test.workload]
            last, expected = plan.verdicts[test.id], _expected(test, quarantine)
            if test.id in plan.costs:
                # What counts the costs needs the verdict.
                last = plan.costs[test.id].action
                bounds = [[name, each.value, each.bound.text] for name, each in goldens.of(test).items()]
                is_judged = test.cost is not None and test.cost.fails
                expected += f", not slower than {digest_value(bounds)[:8]}" if is_judged else ""
            state["tests"][test.id] = [last, expected, reference]
    for name, environment in environments.items():
        known = environment.digest if isinstance(environment, ResolvedEnvironment) else environment.reason
        state["environments"][name] = known
    for action in plan.graph.actions.values():
        tool = tool_of(action)
        if tool not in state["tools"]:
            state["tools"][tool] = keys.tool_digest(action.tool, action.params.get("backend"))
        for ref in action.inputs.values():
            if isinstance(ref, File) and (name := name_of(ref)) not in state["files"]:
                state["files"][name] = digest_if_readable(session.catalog.roots[ref.root] / ref.path)
    return state


def tool_of(action: PlannedAction) -> str:
    """Return the tool of an action, with its backend."""
    backend = action.params.get("backend")
    return f"{action.tool} by {backend}" if backend else action.tool


def name_of(ref: File) -> str:
    """Return the name of a file of a catalog in a state."""
    return f"{ref.root}:{ref.path}"


def input_digests(plan: PlannedTests, state: PlanState) -> dict[str, str]:
    """Return by test the digest of all its static inputs. Equal digests should give equal outcomes."""
    known: dict[str, str] = {}
    for name, action in plan.graph.actions.items():
        words = [name, state["environments"][action.environment], state["tools"][tool_of(action)]]
        words.append(keys.platform_digest(action))
        for ref in action.inputs.values():
            words.append(known[ref.action] if isinstance(ref, Produced) else state["files"][name_of(ref)])
        known[name] = digest_bytes("\n".join(words).encode())
    found = {test: known[last] for test, last in plan.verdicts.items()}
    for test in found.keys() & plan.costs.keys():
        # A suite may fail a test for its costs, by goldens that are among what is expected of it.
        last, expected, _ = state["tests"][test]
        found[test] = digest_bytes(f"{known[last]}\n{expected}".encode())
    return found


def _expected(test: Test, quarantine: ActiveQuarantine) -> str:
    rule = test.expectation
    held = "".join(f", in quarantine until {entry.until}" for entry, _ in quarantine.entries(test.id))
    return f"{rule.outcome if rule else 'pass'}{', not weak' if test.weak_fails else ''}{held}"


def planned_state(session: Session, tests: Iterable[Test]) -> tuple[PlannedTests, PlanState]:
    """Plan the tests that are selected. Return the plan with its state."""
    plan = plan_tests(session, [test for test in tests if test.selected])
    return plan, state_of(session, plan)


def main() -> int:
    """Write the state of the plan that a request on stdin names. Print errors to stderr, as ``matrix`` does."""
    gc.set_threshold(100_000, 20, 20)
    request: StateRequest = json.load(sys.stdin)
    if request["actions"]:
        keys.ACTIONS_FOLDER = Path(request["actions"])
    try:
        session = open_session(
            catalogs=[Path(folder) for folder in request["catalogs"]],
            pins=request["pins"],
            swaps=request["swaps"],
            stale_goldens=True,
        )
        chosen = choose(session.catalog, request["tests"], pins=session.pins)
        _, state = planned_state(session, chosen.tests())
    except MatrixError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    json.dump(state, sys.stdout, separators=(",", ":"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
