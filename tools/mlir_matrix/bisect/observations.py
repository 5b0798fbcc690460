"""Observe tests at points of an axis: run them there and keep how each ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mlir_matrix.bisect.signature import Signature, signature
from mlir_matrix.events import Event, Listener, ignore
from mlir_matrix.execute.options import Limits
from mlir_matrix.expand.expansion import Test
from mlir_matrix.judge.results import Run, TestDone, TestResult
from mlir_matrix.judge.run import run_plan
from mlir_matrix.plan.graph import Produced
from mlir_matrix.plan.planner import Plan
from mlir_matrix.session import Session


@dataclass(frozen=True, kw_only=True)
class Observation:
    """How a test ended at a point of the axis."""

    test: str
    #: The index of the point.
    point: int
    #: None if nothing can be told.
    signature: Signature | None
    result: TestResult


@dataclass(frozen=True, kw_only=True)
class Scan:
    """Tests at many points, run."""

    plan: Plan
    run: Run
    #: By test, then by point.
    observations: Mapping[str, Mapping[int, Observation]]


def observe(
    session: Session,
    tests: Mapping[str, Sequence[Test]],
    *,
    by: str,
    limits: Limits,
    keep: Callable[[Observation], object],
    listener: Listener = ignore,
) -> Scan:
    """Run tests at all points of an axis. ``keep`` gets each observation as soon as it is made, that is, before the end."""
    places = {each.id: (test, point) for test, points in tests.items() for point, each in enumerate(points)}
    plan = session.plan([each for points in tests.values() for each in points])
    found: dict[str, dict[int, Observation]] = {test: {} for test in tests}
    run: list[Run] = []

    def note(result: TestResult) -> None:
        test, point = places[result.id]
        if point not in found[test]:
            outputs = _outputs(plan, run[0], result.id) if by == "output" and run else None
            seen = Observation(test=test, point=point, signature=signature(result, by, outputs), result=result)
            found[test][point] = seen
            keep(seen)

    def listen(event: Event) -> None:
        if not isinstance(event, TestDone):
            listener(event)
            return
        # What a suite expects plays no part.
        listener(TestDone(replace(event.result, expected=True, expectation=None)))
        if by != "output":
            note(event.result)

    run.append(run_plan(session, plan, limits=limits, fail_fast=False, listener=listen))
    for result in run[0].results:
        if run[0].interruption is None or result.reason != "not run: the run was interrupted":
            note(result)
    return Scan(plan=plan, run=run[0], observations=found)


def _outputs(plan: Plan, run: Run, test: str) -> dict[str, str]:
    """Return the digests of what a test computed."""
    action = plan.verdicts.get(test)
    inputs = plan.graph.actions[action].inputs if action else {}
    return {
        name: run.done[ref.action].result.outputs[ref.output]
        for name, ref in inputs.items()
        if isinstance(ref, Produced) and ref.action in run.done and ref.output in run.done[ref.action].result.outputs
        if name.startswith("actual-") or name == "ir"
    }
