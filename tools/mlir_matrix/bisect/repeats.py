"""Plan tests anew: copies of their actions whose results no run has."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import replace

from mlir_matrix.digest import digest_value
from mlir_matrix.execute.job import BUILDING
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.graph import Action, Graph, Produced
from mlir_matrix.plan.planner import Plan

#: Between the identifier of a test or an action and the number of a copy.
COPY = "#"


def with_repeats(plan: Plan, once: Collection[str], times: Mapping[str, int]) -> Plan:
    """Return a plan that has the tests ``once`` as they are, and others, ``ID#0``, ``ID#1`` …, that run anew.

    Work that is done once for a target is not repeated.
    """
    # Another run must not take what this one executes for a result of its own.
    run = f"{os.getpid()}.{time.time_ns()}"
    actions: dict[str, Action] = {}
    tests, verdicts = list[Test](), dict[str, str]()
    for test in plan.tests:
        names = plan.needed_by(test.id)
        if test.id in once:
            tests.append(test)
            actions |= {name: plan.graph.actions[name] for name in names}
            verdicts |= {test.id: names[-1]} if names else {}
        for number in range(times.get(test.id, 0) if names else 0):
            copies: dict[str, str] = {}
            for name in names:
                copy = _copy(plan.graph.actions[name], copies, run, number)
                copies[name] = copy.id
                actions[copy.id] = copy
            tests.append(replace(test, id=f"{test.id}{COPY}{number}"))
            verdicts[tests[-1].id] = copies[names[-1]]
    return Plan(tests=tuple(tests), graph=Graph(actions), verdicts=verdicts)


def _copy(action: Action, copies: Mapping[str, str], run: str, number: int) -> Action:
    """Return a copy that reads what the copies of other actions make."""
    if action.tool in BUILDING:
        return action
    return replace(
        action,
        id=f"{action.id}{COPY}{number}",
        inputs={
            name: Produced(copies[ref.action], ref.output) if isinstance(ref, Produced) else ref
            for name, ref in action.inputs.items()
        },
        sources=tuple(copies[source] for source in action.sources),
        params_digest=digest_value([action.params_digest, run, number]),
    )
