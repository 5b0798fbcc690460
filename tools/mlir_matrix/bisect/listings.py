"""Compile objects again and keep LLVM IR and assembly, so that the difference of two objects is that of one program."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from mlir_matrix.actions.tools.object import LISTINGS
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.options import Limits
from mlir_matrix.judge.run import run_plan
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.planner import Plan
from mlir_matrix.session import Session


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
