"""Probe points of an axis: run tests there, and keep how each ended before the next probe begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from mlir_matrix.bisect.listings import with_listings
from mlir_matrix.bisect.observations import Observation, Observations
from mlir_matrix.bisect.outputs import check_step, outputs_of, repeated, seconds
from mlir_matrix.bisect.signature import PASS, By, signature
from mlir_matrix.bisect.times import time_levels
from mlir_matrix.events import Event, Listener, ignore
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.options import Limits
from mlir_matrix.expand.expansion import Test
from mlir_matrix.judge.results import TestDone, TestResult
from mlir_matrix.judge.run import run_plan
from mlir_matrix.plan.planner import Plan
from mlir_matrix.session import Session

#: What tells results apart that is known only when a run has ended.
_LATE = ("output", "ir", "time")
#: How often a kernel is called to measure its time.
_CALLS = 50


#: Returns the session and the tests at points: by the name of a test, then by point.
TestsAt: TypeAlias = Callable[[Sequence[int]], tuple[Session, Mapping[str, Mapping[int, Test]]]]


@dataclass(kw_only=True)
class Prober:
    """Runs tests at points of an axis."""

    tests_at: TestsAt
    observations: Observations
    by: By
    limits: Limits
    #: Gets each observation as soon as it is made.
    keep: Callable[[Observation], object]
    #: A folder for the results of repeated probes, which no other run may use.
    scratch: Path
    listener: Listener = ignore
    #: All finished actions.
    done: dict[str, Done] = field(default_factory=dict)
    #: What is being probed.
    running: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: With ``by`` time: what the calls of a kernel took, in seconds, by test and point.
    samples: dict[str, dict[int, list[float]]] = field(default_factory=dict)

    def probe(self, wanted: Mapping[str, Sequence[int]]) -> None:
        """Run tests at points. What was observed, or is named twice, is executed anew. Raise the interruption of a run."""
        rounds: list[dict[str, list[int]]] = []
        for test, points in wanted.items():
            seen = {point: 1 for point in points if self.observations.at(test, point)}
            for point in points:
                number = seen[point] = seen.get(point, 0) + 1
                while len(rounds) < number:
                    rounds.append({})
                rounds[number - 1].setdefault(test, []).append(point)
        for number, each in enumerate(rounds):
            if each:
                self._run(each, anew=number > 0)
        self.running = {}

    def plan(self, wanted: Mapping[str, Sequence[int]]) -> Plan:
        """Return the plan of tests that were probed, whose actions are all in ``done``."""
        session, tests = self._select(wanted)
        plan = self._plan(session, tests)
        if not plan.graph.actions.keys() <= self.done.keys():
            run = run_plan(session, plan, limits=self.limits, fail_fast=False, listener=_without_results(self.listener))
            self.done |= run.done
            if run.interruption is not None:
                raise run.interruption
        return plan

    def listings(self, plan: Plan, places: Mapping[str, int]) -> tuple[Plan, Mapping[str, Done]]:
        """Return a plan of tests up to their objects, with what each program makes, and its results; ``places``: their points."""
        session, _ = self.tests_at(sorted(set(places.values())))
        return with_listings(session, plan, places, self.limits)

    def level_times(self) -> None:
        """Tell passes apart by their times, once all points are known."""
        for test, samples in self.samples.items():
            levels = time_levels(samples)
            for point in self.observations.points(test):
                for seen in point.observations:
                    if seen.signature == PASS:
                        self.observations.replace(seen, replace(seen, signature=levels.get(point.index)))

    def _plan(self, session: Session, tests: Sequence[Test]) -> Plan:
        plan = session.plan(tests)
        check_step(plan, self.by)
        return repeated(plan, _CALLS) if self.by.kind == "time" else plan

    def _select(self, wanted: Mapping[str, Sequence[int]]) -> tuple[Session, list[Test]]:
        session, found = self.tests_at(sorted({point for points in wanted.values() for point in points}))
        return session, [found[test][point] for test, points in wanted.items() for point in points]

    def _run(self, wanted: Mapping[str, Sequence[int]], *, anew: bool) -> None:
        session, tests = self._select(wanted)
        if anew:
            session = replace(session, home=replace(session.home, actions=self.scratch))
            # Results alone: to make and remove all folders of a cache takes longer than most tests.
            for file in Path(ActionCache(self.scratch).results).glob("*/*"):
                file.unlink()
        self._execute(session, wanted, tests, anew=anew)

    def _execute(
        self, session: Session, wanted: Mapping[str, Sequence[int]], tests: Sequence[Test], *, anew: bool
    ) -> None:
        places = [(test, point) for test, points in wanted.items() for point in points]
        waiting = dict(zip((each.id for each in tests), places, strict=True))
        plan = self._plan(session, tests)
        runnable = [place for place, test in zip(places, tests, strict=True) if test.id in plan.verdicts]
        self.running = {test: [point for name, point in runnable if name == test] for test in wanted}

        def note(result: TestResult, outputs: Mapping[str, str] | None = None) -> None:
            if result.id in waiting:
                test, point = waiting.pop(result.id)
                found = signature(result, self.by, outputs)
                limit = self.limits.timeout_s
                seen = Observation(test=test, point=point, signature=found, result=result, limit_s=limit)
                self.observations.add(seen)
                self.keep(seen)

        def listen(event: Event) -> None:
            if not isinstance(event, TestDone):
                self.listener(event)
                return
            # What a suite expects plays no part.
            self.listener(TestDone(replace(event.result, expected=True, expectation=None)))
            if self.by.kind not in _LATE:
                note(event.result)

        run = run_plan(session, plan, limits=self.limits, fail_fast=False, listener=listen)
        if run.interruption is not None:
            # What is not noted by now was not run.
            raise run.interruption
        read = ActionCache(session.home.actions).read_blob
        for result in run.results:
            test, point = waiting.get(result.id, ("", 0))
            if self.by.kind == "time" and test:
                self.samples.setdefault(test, {})[point] = seconds(plan, run.done, result.id)
            note(result, outputs_of(plan, run.done, result.id, self.by, read))
        if not anew:
            self.done |= run.done


def _without_results(listener: Listener) -> Listener:
    return lambda event: None if isinstance(event, TestDone) else listener(event)
