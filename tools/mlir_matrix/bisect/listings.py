"""Run further actions for a comparison: objects again with LLVM IR and assembly, and IR printed by one release."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from mlir_matrix.actions.tools.object import LISTINGS
from mlir_matrix.bisect.difference import Prints, common_steps
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.job import Done
from mlir_matrix.judge.run import run_graph, run_plan
from mlir_matrix.plan.graph import Action, Graph, Produced
from mlir_matrix.plan.planner import Plan
from mlir_matrix.plan.request import Limits


def with_listings(
    session: Session, plan: Plan, tests: Collection[str], limits: Limits
) -> tuple[Plan, Mapping[str, Done]]:
    """Run tests up to their objects, which keep LLVM IR and assembly; return that plan, and its results for ``first_difference``.

    Only objects that ``mlir-translate``, ``opt`` and ``llc`` make are compiled again. All before is in the cache.
    """
    kept = _keep(plan, tests)
    run = run_plan(session, kept, limits=limits, fail_fast=False)
    if run.interruption is not None:
        raise run.interruption
    return kept, run.done


def _keep(plan: Plan, tests: Collection[str]) -> Plan:
    """Return the plan up to the objects of tests, with LLVM IR and assembly as further outputs."""
    actions, last = plan.graph.actions, dict[str, str]()
    for test in tests:
        for name in plan.needed_by(test):
            if actions[name].tool == "object" and actions[name].params.get("backend") == "programs":
                last[test] = name
    needed = {name: actions[name] for each in last.values() for name in plan.graph.needed_by(each)}
    needed |= {name: replace(needed[name], outputs={**LISTINGS, **needed[name].outputs}) for name in last.values()}
    return Plan(tests=tuple(each for each in plan.tests if each.id in last), graph=Graph(needed), verdicts=last)


def with_prints(
    session: Session, plan: Plan, done: Mapping[str, Done], pairs: Iterable[tuple[str, str]], limits: Limits
) -> Prints:
    """Print the IR after the common steps of older and newer tests by the newer release: each spells it in another way.

    The older release hands its IR over in the generic form; where an operation has got other attributes since, as it wrote it.
    """
    graph, added = Graph({**plan.graph.actions}), dict[tuple[Produced, Produced], tuple[str, str, str]]()
    # A command of a catalog has none of its own: it may be any program.
    backends = {
        each.environment: {key: each.params[key] for key in ("backend", "bindings") if key in each.params}
        for each in plan.graph.actions.values()
        if "backend" in each.params
    }
    steps = [
        each
        for pair in pairs
        for each in common_steps(plan, done, pair)
        if all(of.environment in backends for of in each)
    ]

    def printed(step: Action, ref: Produced) -> str:
        return graph.add(
            f"print/{step.id}",
            tool="reprint",
            stage=step.stage,
            environment=step.environment,
            params=backends[step.environment],
            inputs={"ir": ref},
            outputs={"generic": "generic.mlir", "custom": "custom.mlir"},
        )

    for older, newer in steps:
        outputs = [done[each.id].result.outputs.items() for each in (older, newer)]
        for name in dict(outputs[0] - outputs[1]).keys() & dict(outputs[1]).keys():
            if older.outputs[name].endswith(".mlir"):
                old, new = (Produced(each.id, name) for each in (older, newer))
                handed = Produced(printed(older, old), "generic")
                added[old, new] = (printed(newer, handed), printed(newer, old), printed(newer, new))
    needed = {name: graph.actions[name] for names in added.values() for each in names for name in graph.needed_by(each)}
    found = run_graph(session, Graph(needed), limits=limits)
    results = {refs: [found[name].result for name in names] for refs, names in added.items()}
    return {refs: (left if left.ok else written, right) for refs, (left, written, right) in results.items()}
