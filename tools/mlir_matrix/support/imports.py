"""Find the operators in the IR that importers make of workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from mlir_matrix.actions.outcomes import Stage
from mlir_matrix.base.paths import Home
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache, LostBlob, Result
from mlir_matrix.execute.lookup import cached_results
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.session import plan_tests
from mlir_matrix.support.support import operators


def imports_of(plan: PlannedTests) -> dict[str, str]:
    """Return by test the action that imports its workload as MLIR."""
    actions = plan.graph.actions
    return {
        test: name
        for test in plan.verdicts
        for name in plan.needed_by(test)
        if actions[name].stage == Stage.IMPORT and actions[name].outputs.get("out", "").endswith(".mlir")
    }


def operators_by_test(
    imports: Mapping[str, str], results: Mapping[str, Result], home: Home
) -> dict[str, frozenset[str]]:
    """Return the operators of the imported IR by test; ``results`` are those of the imports. Each file is read once."""
    store = ActionCache(home.actions)
    read: dict[str, frozenset[str]] = {}
    for name, result in results.items():
        # Another process may evict it.
        with suppress(LostBlob):
            if result.ok:
                read[name] = operators(store.read_blob(result.outputs["out"]).decode("utf-8", "replace"))
    return {test: read[name] for test, name in imports.items() if name in read}


def cached_operators(session: Session, tests: Iterable[Test]) -> dict[str, frozenset[str]]:
    """Return the operators of tests whose imports the action cache has; nothing is executed."""
    # Pipelines and targets share imports: one test of each is planned.
    groups: dict[object, list[Test]] = {}
    for test in tests:
        route = test.route
        if route is not None:
            shared = test.framework, test.workload, route.kind, route.source, route.ingress
            groups.setdefault(shared, []).append(test)
    plan = plan_tests(session, [group[0] for group in groups.values()])
    imports = imports_of(plan)
    actions = plan.graph.actions
    needed = {action for name in imports.values() for action in plan.graph.needed_by(name)}
    results = cached_results(
        plan.graph,
        imports.values(),
        roots=session.catalog.roots,
        environments=session.environments(actions[name].environment for name in needed),
        store=ActionCache(session.home.actions),
    )
    found = operators_by_test(imports, results, session.home)
    return {test.id: found[group[0].id] for group in groups.values() if group[0].id in found for test in group}
