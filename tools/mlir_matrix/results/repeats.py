"""Execute tests again, once or several times: copy their actions under new keys, and fold the results of all copies into one."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import median
from typing import TypeAlias

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.events import Event, Listener
from mlir_matrix.execute.job import Done
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.costs import PlannedCosts
from mlir_matrix.plan.graph import BUILDING, ActionId, Graph, PlannedAction, Produced
from mlir_matrix.plan.levels import COMPILING
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.results.results import NOT_RUN, TestDone, TestResult

#: The mark between the identifier of a test or an action and the number of a copy.
COPY = "#"


#: The stages from which tests can be executed again. Judging depends only on its inputs.
STAGES = (*COMPILING, Stage.RUN)
#: The outputs of actions so far, by the action without the number of a copy, and its inputs.
Made: TypeAlias = dict[tuple[str, ...], set[tuple[str, ...]]]


def with_repeats(
    plan: PlannedTests, once: Collection[str], times: Mapping[str, int], *, stages: Collection[Stage] = tuple(Stage)
) -> PlannedTests:
    """Return a plan with the tests ``once`` unchanged, and the others as copies ``ID#0``, ``ID#1`` … that are executed again.

    Actions of other stages than ``stages`` are executed again only if their inputs differ. Libraries that are built once for a
    target are not built again.
    """
    # Part of the keys, so that another run does not use these results.
    run = f"{os.getpid()}.{time.time_ns()}"
    actions: dict[str, PlannedAction] = {}
    tests, verdicts, costs = list[Test](), dict[str, str](), dict[str, PlannedCosts]()
    for test in plan.tests:
        counting = plan.costs.get(test.id)
        # The costs of a test need its verdict.
        names = plan.graph.needed_by(counting.action) if counting else plan.needed_by(test.id)
        if test.id in once:
            tests.append(test)
            actions |= {name: plan.graph.actions[name] for name in names}
            verdicts |= {test.id: plan.verdicts[test.id]} if names else {}
            costs |= {test.id: counting} if counting else {}
        for number in range(times.get(test.id, 0) if names else 0):
            copies: dict[str, str] = {}
            for name in names:
                copy = _copy(plan.graph.actions[name], copies, number, run, stages)
                copies[name] = copy.id
                actions[copy.id] = copy
            tests.append(replace(test, id=f"{test.id}{COPY}{number}"))
            verdicts[tests[-1].id] = copies[plan.verdicts[test.id]]
            if counting:
                compiled_by = tuple(map(copies.__getitem__, counting.compiled_by))
                costs[tests[-1].id] = replace(counting, action=copies[counting.action], compiled_by=compiled_by)
    return PlannedTests(tests=tuple(tests), graph=Graph(actions), verdicts=verdicts, costs=costs)


def _copy(
    action: PlannedAction, copies: Mapping[str, str], number: int, run: str, stages: Collection[Stage]
) -> PlannedAction:
    """Return a copy of an action that reads outputs of the copies of other actions; the action itself if nothing differs."""
    anew = action.stage in stages
    if action.tool in BUILDING or not (anew or any(copies[source] != source for source in action.sources)):
        return action
    return replace(
        action,
        id=f"{action.id}{COPY}{number}",
        inputs={
            name: Produced(copies[ref.action], ref.output) if isinstance(ref, Produced) else ref
            for name, ref in action.inputs.items()
        },
        sources=tuple(copies[source] for source in action.sources),
        params_digest=digest_value([action.params_digest, run, number]) if anew else action.params_digest,
    )


def note_outputs(made: Made, plan: PlannedTests, done: Mapping[str, Done]) -> None:
    """Note the outputs of a run's steps for their inputs."""
    for name, each in done.items():
        action = plan.graph.actions[name]
        if action.stage in COMPILING and each.result.ok:
            refs = [ref for ref in action.inputs.values() if isinstance(ref, Produced)]
            read = [done[ref.action].result.outputs[ref.output] for ref in refs if ref.action in done]
            made.setdefault((without_copy(name), *read), set()).add(tuple(each.result.outputs.values()))


def unstable(plan: PlannedTests, made: Made) -> dict[str, list[str]]:
    """Return the steps that gave different bytes for equal inputs, by test."""
    changing = {name for (name, *_), outputs in made.items() if len(outputs) > 1}
    found: dict[str, list[str]] = {}
    for test in plan.tests if changing else ():
        steps = [without_copy(name) for name in plan.needed_by(test.id) if without_copy(name) in changing]
        if steps:
            found[without_copy(test.id)] = [ActionId.parse(name).label for name in steps]
    return found


def unstable_in_run(plan: PlannedTests, done: Mapping[str, Done]) -> dict[str, list[str]]:
    """Return the steps that gave different bytes for equal inputs in one run, by test."""
    made: Made = {}
    note_outputs(made, plan, done)
    return unstable(plan, made)


def without_copy(test: str) -> str:
    """Return the identifier of a test or an action without the number of a copy."""
    return test.partition(COPY)[0]


def fold(results: Iterable[TestResult]) -> list[TestResult]:
    """Return one result for the copies of each test, which must be adjacent."""
    return [_folded(test, [*copies]) for test, copies in groupby(results, lambda result: without_copy(result.id))]


def _folded(test: str, copies: Sequence[TestResult]) -> TestResult:
    """Return the first unexpected result, one of the program under test if there is any, else the first.

    It has the number of times of each outcome. The reason names the outcomes if they differ.
    """
    ran = [each for each in copies if each.outcome not in NOT_RUN] or copies
    wrong = [each for each in ran if not each.expected]
    wrong.sort(key=lambda each: each.outcome == Outcome.INFRA_ERROR)
    cut = next((each for each in copies if each.outcome == Outcome.SKIPPED), None)
    if cut is not None and not wrong:
        # The copies that an interrupted run did not execute say nothing.
        after = f" after {len(ran)} of {len(copies)} runs" if ran is not copies else ""
        return replace(cut, id=test, reason=f"{cut.reason}{after}")
    shown = (wrong or ran)[0]
    if len(ran) == 1 or shown.outcome in NOT_RUN:
        return replace(shown, id=test)
    outcomes = Counter(each.outcome for each in ran)
    reason = shown.reason
    if len(outcomes.keys() - {Outcome.INFRA_ERROR}) > 1:
        seen = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        reason = f"flaky: {seen} in {len(ran)} runs" + (f"; {reason}" if reason else "")
    duration = median(each.duration_s for each in ran)
    return replace(shown, id=test, reason=reason, duration_s=duration, repeats=dict(outcomes))


def folding(listener: Listener, times: int) -> Listener:
    """Return a listener that gets one result for a test's copies, once all of them are known."""
    waiting: dict[str, list[TestResult]] = {}

    def on(event: Event) -> bool | None:
        if isinstance(event, TestDone):
            copies = waiting.setdefault(without_copy(event.result.id), [])
            copies.append(event.result)
            if len(copies) < times:
                return None
            event = TestDone(_folded(without_copy(event.result.id), copies))
        return listener(event)

    return on
