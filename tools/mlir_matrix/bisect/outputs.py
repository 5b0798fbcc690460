"""Compute digests of outputs and of the IR after a step at a point, and levels of times that differ by more than noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.base.digest import digest_bytes, digest_value
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.names import check_known
from mlir_matrix.bisect.difference import normalised
from mlir_matrix.bisect.signature import By
from mlir_matrix.execute.job import Done
from mlir_matrix.plan.graph import BUILDING, Graph, PlannedAction, Produced
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.results.results import TestResult
from mlir_matrix.results.signature import Signature


def check_step(plan: PlannedTests, by: By) -> None:
    """Raise UsageError if ``ir:STEP`` names a step that no test of a plan has."""
    if by.kind != "ir":
        return
    steps = [list(_steps(plan, test)) for test in plan.verdicts]
    if not by.name.isdecimal():
        check_known("step", [by.name], {name for each in steps for name in each}, f"--by ir:{by.name}: ")
    elif not 0 < int(by.name) <= max(map(len, steps), default=0):
        longest = max(steps, key=len, default=[])
        raise UsageError(f"--by ir:{by.name}: the steps are {', '.join(f'{n} {s}' for n, s in enumerate(longest, 1))}")


def outputs_of(
    plan: PlannedTests, done: Mapping[str, Done], test: str, by: By, read: Callable[[str], bytes]
) -> dict[str, str]:
    """Return the digests for ``signature``; empty if the test did not compute them.

    IR that differs only in names of values and spelling has the same digest.
    """
    if by.kind == "output":
        action = plan.graph.actions.get(plan.verdicts.get(test, ""))
        inputs = action.inputs if action else {}
        compared = {"ir", *map(Role.ACTUAL.of, Role.ACTUAL.among(inputs))}
        return {
            name: done[ref.action].result.outputs[ref.output]
            for name, ref in inputs.items()
            if isinstance(ref, Produced) and ref.action in done and ref.output in done[ref.action].result.outputs
            if name in compared
        }
    if by.kind != "ir":
        return {}
    steps, name = _steps(plan, test), step_of(plan, test, by)
    if name not in steps or steps[name].id not in done:
        return {}
    outputs = done[steps[name].id].result.outputs
    return {
        f"{output} after {name}": digest_bytes(normalised(read(digest).decode("utf-8", "replace")).encode())
        if steps[name].outputs[output].endswith(".mlir")
        else digest
        for output, digest in outputs.items()
    }


def step_of(plan: PlannedTests, test: str, by: By) -> str:
    """Return the name of the step of ``ir:STEP`` or ``ir:NUMBER``; empty if a test has none, or for another criterion."""
    steps = enumerate(_steps(plan, test), 1) if by.kind == "ir" else ()
    return next((each for number, each in steps if by.name in (each, str(number))), "")


def wrote_it(plan: PlannedTests, result: TestResult) -> bool:
    """Return whether the step that decided a result read text that its own environment wrote."""
    action = plan.graph.actions.get(str(result.step["action"])) if result.step else None
    refs = [ref for ref in action.inputs.values() if isinstance(ref, Produced)] if action else []
    return action is not None and action.environment in {plan.graph.actions[ref.action].environment for ref in refs}


def _steps(plan: PlannedTests, test: str) -> dict[str, PlannedAction]:
    """Return the steps of a test by name, in their order."""
    return {
        each.label: each
        for each in _actions(plan, test)
        if each.stage in (Stage.LOWER, Stage.CODEGEN) and each.tool not in BUILDING
    }


def _actions(plan: PlannedTests, test: str) -> Iterator[PlannedAction]:
    return map(plan.graph.actions.__getitem__, plan.needed_by(test))


def repeated(plan: PlannedTests, count: int) -> PlannedTests:
    """Return a plan that calls each kernel this many times and measures each call."""
    actions = dict(plan.graph.actions)
    for name, action in actions.items():
        if action.tool == "run" and "draws" not in action.params:
            params = {**action.params, "repeat": count}
            actions[name] = replace(action, params=params, params_digest=digest_value(params))
    return replace(plan, graph=Graph(actions))


def seconds(plan: PlannedTests, done: Mapping[str, Done], test: str) -> list[float]:
    """Return the time of each call of a test's kernel; if a runtime does not measure calls, the time of the run."""
    found: list[float] = []
    for action in _actions(plan, test):
        if action.stage == Stage.RUN and action.id in done and done[action.id].result.ok:
            result = done[action.id].result
            times = result.metrics.get("kernel_ns")
            # The code under test can write any value there.
            measured = [each * 1e-9 for each in (times if isinstance(times, list) else ()) if isinstance(each, int)]
            found += measured or [result.usage["wall_s"]]
    return found


#: The fewest samples of a point. With fewer, the noise is unknown.
FEWEST = 5


#: The least relative difference between levels, because clocks are too coarse for short kernels.
_LEAST = 0.02


def time_levels(samples: Mapping[int, Sequence[float]]) -> dict[int, Signature]:
    """Return the behaviours of the points of an axis by their samples in seconds. Leave out points with few samples.

    Neighbours join one level, the most similar first, unless their medians differ by more than three times the noise. The noise is
    the distance of a point's median from its fastest sample, because disturbances only make a program slower.
    """
    known = {point: sorted(samples[point]) for point in sorted(samples) if len(samples[point]) >= FEWEST}
    levels = [[point] for point in known]
    noise = median(median(each) - each[0] for each in known.values()) if known else 0.0

    def middle(level: list[int]) -> float:
        return median(value for point in level for value in known[point])

    while len(levels) > 1:
        middles = [middle(level) for level in levels]
        gap, first = min((abs(one - next_), place) for place, (one, next_) in enumerate(pairwise(middles)))
        if gap > max(3 * noise, _LEAST * middles[first]):
            break
        levels[first : first + 2] = [levels[first] + levels[first + 1]]
    return {
        point: Signature(outcome=Outcome.PASS, details=(_duration(middle(level)),))
        for level in levels
        for point in level
    }


def _duration(value: float) -> str:
    unit, factor = next((each for each in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)) if value * each[1] >= 1), ("ns", 1e9))
    return f"{value * factor:.3g} {unit}"
