"""Probe points of an axis: run tests there, keep their results, and print objects and IR again for comparison."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from mlir_matrix.actions.tools.object import LISTINGS
from mlir_matrix.base.events import Event, Listener, ignore
from mlir_matrix.bisect.difference import Prints, common_steps
from mlir_matrix.bisect.observations import Observation, Observations
from mlir_matrix.bisect.outputs import check_step, outputs_of, repeated, seconds, time_levels, wrote_it
from mlir_matrix.bisect.signature import By, signature
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.job import ActionDone, Done
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.expand.costs import CostResolver, with_costs
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.graph import Graph, PlannedAction, Produced, add_print
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests
from mlir_matrix.results.repeats import Made, note_outputs, with_repeats, without_copy
from mlir_matrix.results.results import TestDone, TestResult
from mlir_matrix.results.run_plan import run_plan
from mlir_matrix.results.signature import PASS

#: How often to call a kernel to measure its time.
_CALLS = 50


#: A function that returns the session and the tests at points: by the name of a test, then by point.
TestsAt: TypeAlias = Callable[[Sequence[int]], tuple[Session, Mapping[str, Mapping[int, Test]]]]


@dataclass(kw_only=True)
class Prober:
    """Runs tests at points of an axis."""

    tests_at: TestsAt
    observations: Observations
    by: By
    limits: Limits
    #: A function that gets each observation as soon as it is made.
    keep: Callable[[Observation], object]
    listener: Listener = ignore
    #: All finished actions.
    done: dict[str, Done] = field(default_factory=dict)
    #: The outputs of their steps in all runs.
    made: Made = field(default_factory=dict)
    #: The tests and points that are being probed.
    running: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: With ``by`` time: the seconds of a kernel's calls, by test and point.
    samples: dict[str, dict[int, list[float]]] = field(default_factory=dict)

    def probe(self, wanted: Mapping[str, Sequence[int]], limit_s: float) -> None:
        """Run tests at points. A point that was observed, or is given twice, is executed again. Raise interruptions of a run.

        ``limit_s``: the time limit of an action, in seconds.
        """
        session, tests = self._select({test: list(dict.fromkeys(points)) for test, points in wanted.items()})
        places = [(test, point) for test, points in wanted.items() for point in dict.fromkeys(points)]
        by_id = dict(zip((each.id for each in tests), places, strict=True))
        known = {name for name, place in by_id.items() if self.observations.at(*place)}
        times = {name: wanted[test].count(point) - (name not in known) for name, (test, point) in by_id.items()}
        try:
            plan = with_repeats(self._plan(session, tests), by_id.keys() - known, times)
            self._run(session, plan, by_id, replace(self.limits, timeout_s=limit_s))
        finally:
            self.running = {}

    def plan(self, wanted: Mapping[str, Sequence[int]]) -> PlannedTests:
        """Return the plan of probed tests. All of its actions are in ``done``."""
        session, tests = self._select(wanted)
        plan = self._plan(session, tests)
        if not plan.graph.actions.keys() <= self.done.keys():
            run = run_plan(session, plan, limits=self.limits, fail_fast=False, listener=_without_results(self.listener))
            self.done |= run.done
            run.raise_interruption()
        return plan

    def listings(self, plan: PlannedTests, places: Mapping[str, int]) -> tuple[PlannedTests, Mapping[str, Done]]:
        """Return a plan of tests up to their objects, with outputs of each program, and its results. ``places``: their points.

        Objects that could not be compiled are not compiled again.
        """
        session, _ = self.tests_at(sorted(set(places.values())))
        objects = (name for name, action in plan.graph.actions.items() if action.tool == "object")
        failed = {name for name in objects if not self.done[name].result.ok}
        return with_listings(
            session, plan, [test for test in places if failed.isdisjoint(plan.needed_by(test))], self.limits
        )

    def prints(self, plan: PlannedTests, pairs: Sequence[tuple[str, str]], places: Mapping[str, int]) -> Prints:
        """Return the IR of older and newer tests as the newer release prints it; ``places``: their points."""
        session, _ = self.tests_at(sorted(set(places.values())))
        return with_prints(session, plan, self.done, pairs, self.limits)

    def level_times(self) -> None:
        """Distinguish passes by their times, once all points are known."""
        for test, samples in self.samples.items():
            levels = time_levels(samples)
            for point in self.observations.points(test):
                for seen in point.observations:
                    if seen.signature == PASS:
                        self.observations.replace(seen, replace(seen, signature=levels.get(point.index)))

    def _plan(self, session: Session, tests: Sequence[Test]) -> PlannedTests:
        # Suites may want to know of costs; a bisection, only where it compares one.
        alone = [replace(test, cost=None) for test in tests]
        plan = plan_tests(session, with_costs(alone) if self.by.kind == "cost" else alone)
        check_step(plan, self.by)
        return repeated(plan, _CALLS) if self.by.kind == "time" else plan

    def _select(self, wanted: Mapping[str, Sequence[int]]) -> tuple[Session, list[Test]]:
        session, found = self.tests_at(sorted({point for points in wanted.values() for point in points}))
        return session, [found[test][point] for test, points in wanted.items() for point in points]

    def _run(self, session: Session, plan: PlannedTests, places: Mapping[str, tuple[str, int]], limits: Limits) -> None:
        """Run a plan. ``places``: the test and the point of each identifier without the number of a copy."""
        runnable = [places[without_copy(test)] for test in plan.verdicts]
        self.running = {test: [point for name, point in runnable if name == test] for test, _ in runnable}
        waiting = {test.id for test in plan.tests}

        read = ActionCache(session.home.actions).read_blob
        bounds, by_id = CostResolver(session.catalog), {test.id: test for test in plan.tests}

        def note(result: TestResult) -> None:
            waiting.discard(result.id)
            named = replace(result, id=without_copy(result.id), expected=True, expectation=None)
            test, point = places[named.id]
            if self.by.kind == "time":
                self.samples.setdefault(test, {})[point] = seconds(plan, self.done, result.id)
            outputs = outputs_of(plan, self.done, result.id, self.by, read)
            bound = bounds.bound(by_id[result.id], self.by.name)
            found = signature(named, self.by, outputs, wrote_it=wrote_it(plan, result), bound=bound)
            seen = Observation(test=test, point=point, signature=found, result=named, limit_s=limits.timeout_s)
            self.observations.add(seen)
            self.keep(seen)

        def listen(event: Event) -> None:
            if isinstance(event, ActionDone):
                self.done[event.action.id] = event.done
            if isinstance(event, TestDone):
                note(event.result)
                # Expectations of suites do not matter here.
                name = without_copy(event.result.id)
                event = TestDone(replace(event.result, id=name, expected=True, expectation=None))
            self.listener(event)

        run = run_plan(session, plan, limits=limits, fail_fast=False, listener=listen)
        note_outputs(self.made, plan, run.done)
        if run.interruption is not None:
            # Results that are not noted by now do not exist.
            raise run.interruption
        for result in run.results:
            if result.id in waiting:
                note(result)


def _without_results(listener: Listener) -> Listener:
    return lambda event: None if isinstance(event, TestDone) else listener(event)


def with_listings(
    session: Session, plan: PlannedTests, tests: Collection[str], limits: Limits
) -> tuple[PlannedTests, Mapping[str, Done]]:
    """Run tests up to their objects, with LLVM IR and assembly. Return that plan, and its results for ``first_difference``.

    Only objects that ``mlir-translate``, ``opt`` and ``llc`` make are compiled again. Earlier results come from the cache.
    """
    kept = _keep(plan, tests)
    run = run_plan(session, kept, limits=limits, fail_fast=False)
    run.raise_interruption()
    return kept, run.done


def _keep(plan: PlannedTests, tests: Collection[str]) -> PlannedTests:
    """Return the plan up to the objects of tests, with LLVM IR and assembly as further outputs."""
    actions, last = plan.graph.actions, dict[str, str]()
    for test in tests:
        for name in plan.needed_by(test):
            if actions[name].tool == "object" and actions[name].params.get("backend") == "programs":
                last[test] = name
    needed = {name: actions[name] for each in last.values() for name in plan.graph.needed_by(each)}
    needed |= {name: replace(needed[name], outputs={**LISTINGS, **needed[name].outputs}) for name in last.values()}
    return PlannedTests(tests=tuple(each for each in plan.tests if each.id in last), graph=Graph(needed), verdicts=last)


def with_prints(
    session: Session, plan: PlannedTests, done: Mapping[str, Done], pairs: Iterable[tuple[str, str]], limits: Limits
) -> Prints:
    """Print the IR after the common steps of older and newer tests by the newer release, because releases differ in spelling.

    The older release provides its IR in the generic form, or as it wrote it if the attributes of an operation have changed since.
    """
    graph, added = Graph({**plan.graph.actions}), dict[tuple[Produced, Produced], tuple[str, str, str]]()
    # A catalog's command has no backend, because it may be any program.
    compilers = {each.environment: each for each in plan.graph.actions.values() if "backend" in each.params}
    steps = [
        each
        for pair in pairs
        for each in common_steps(plan, done, pair)
        if all(of.environment in compilers for of in each)
    ]

    def printed(step: PlannedAction, ref: Produced) -> str:
        return add_print(graph, ref, compilers[step.environment], f"print/{step.id}")

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
