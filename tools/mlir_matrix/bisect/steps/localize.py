"""Run the levels of a failing test by its continuations, and conclude which part is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.actions.params import RelateParams
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import Listener, ignore
from mlir_matrix.base.names import split_pins
from mlir_matrix.bisect.steps.continuations import Continuation, Continuations
from mlir_matrix.bisect.steps.evidence import Answer, Conclusion, LevelObservation, Part, conclude
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.routes import RouteStep
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.plan.graph import Input, PlannedAction, Produced, add_print
from mlir_matrix.plan.planner import PlannedTests, Planner
from mlir_matrix.plan.programs import is_prepared
from mlir_matrix.plan.request import Limits
from mlir_matrix.results.results import NOT_RUN, TestResult
from mlir_matrix.results.run_plan import run_plan
from mlir_matrix.results.signature import UNKNOWN, behaviour_of_run


@dataclass(frozen=True, kw_only=True)
class ContinuationResult:
    """The result of a continuation at a level."""

    continuation: Continuation
    answer: Answer
    result: TestResult


@dataclass(frozen=True, kw_only=True)
class Localized:
    """What continuations say of a failing test."""

    test: Test
    result: TestResult
    parts: Sequence[Part]
    #: The index of the part whose output the first step takes.
    first: int
    cells: Sequence[ContinuationResult]
    conclusion: Conclusion

    @property
    def steps(self) -> Sequence[RouteStep]:
        return self.test.known_route.steps

    @property
    def suspects(self) -> list[str]:
        return [self.parts[index].name for index in self.conclusion.suspects]

    @property
    def steps_before_suspects(self) -> int:
        """Return the number of steps before the first suspect; 0 if that is not a step, or if there is none."""
        if not self.conclusion.suspects:
            return 0
        steps = min(self.conclusion.suspects) - self.first - 1
        return steps if 0 <= steps < len(self.steps) else 0


class LevelPlanner:
    """Adds a failing test and its continuations to one graph."""

    def __init__(self, session: Session, test: Test) -> None:
        self.planner = Planner(session.catalog, ToleranceResolver(session.catalog).of, session.pins)
        self._catalog, self._test = session.catalog, test
        self._source = self.planner.chains.enter(test)
        self._own = self.planner.chains.run(test, self.planner.chains.compile(test))
        self.tests = [test]
        self.verdicts = {test.id: self.planner.judge(test, self._own)}

    def level(self, steps: int) -> Input:
        """Return what the first steps of the failing test give."""
        return self.planner.chains.lower(self._test, 0, self._source, steps)

    def printed(self, ir: Input, form: str, action: PlannedAction) -> Produced:
        """Return IR as the release of an action prints it: ``generic``, which other releases can read, or ``custom``."""
        return Produced(add_print(self.planner.graph, ir, action), form)

    def handed(self, artifact: Input, environment: str) -> Input:
        """Return an artifact for a step in an environment: IR for another release of its environment in the generic form."""
        if not isinstance(artifact, Produced):
            return artifact
        action = self.planner.graph.actions[artifact.action]
        is_ir = "backend" in action.params and action.outputs[artifact.output].endswith(".mlir")
        is_other = action.environment != environment and split_pins(action.environment)[0] == split_pins(environment)[0]
        return self.printed(artifact, "generic", action) if is_ir and is_other else artifact

    def add(self, test: Test, artifact: Input) -> None:
        """Add a continuation from an artifact: it is judged as the failing test is, and compared with what that gives."""
        chains = self.planner.chains
        if test.route and test.route.steps:
            artifact = self.handed(artifact, test.route.steps[0].resolved_step.environment)
        run = chains.run(test, chains.lower(test, 0, artifact))
        self.tests += [test, replace(test, id=alike(test.id))]
        self.verdicts[test.id] = self.planner.judge(self._test, run)
        self.verdicts[alike(test.id)] = self._compare(run)

    def _compare(self, run: str) -> str:
        """Add the action that compares a run with that of the failing test, within its bounds."""
        workload = self._catalog.workloads[self._test.workload]
        params: RelateParams = {
            "relation": "both compute the same",
            "outputs": [],
            "ops": {},
            "join": {},
            "parts": 1,
            "same": run == self._own,
        }
        if is_prepared(self._catalog, workload):
            params["bounds"] = self.planner.judging_program(self._test)["bounds"]
        else:
            params["outputs"] = self.planner.judging(self._test)["outputs"]
        related = {Role.OTHER: self._own, Role.FIRST_PART: run}
        return self.planner.chains.relate(self._test, related, params)

    def plan(self) -> PlannedTests:
        return PlannedTests(tests=tuple(self.tests), graph=self.planner.graph, verdicts=self.verdicts)


def alike(test: str) -> str:
    """Return the identifier of the comparison of a continuation with the failing test."""
    return f"{test} alike"


def localize(
    session: Session, test: Test, limits: Limits, *, fetching: bool = True, listener: Listener = ignore
) -> Localized:
    """Find the part of a failing test that is wrong. Raise UsageError for a test that passes or gives no outputs.

    ``fetching``: install other releases and tools if what is installed does not suffice.
    """
    if test.outcome is not None:
        raise UsageError(f"{test.id}: {test.reason}")
    why = test.without_outputs
    if test.tested_property:
        why = f"{test.id} tests a property, which compares two runs"
    if test.route is None:
        why = f"{test.id} tests a step by itself"
    if why:
        raise UsageError(f"{why}; --over steps takes a test that runs a program")
    # Whether a trivial output would pass, too, says nothing about steps.
    test = replace(test, weak_fails="")
    found = _ask(session, test, limits, fetching=False, listener=listener)
    if fetching and not found.conclusion.settled:
        found = _ask(session, test, limits, fetching=True, listener=listener)
    return found


def _ask(session: Session, test: Test, limits: Limits, *, fetching: bool, listener: Listener) -> Localized:
    """Ask the continuations of a test at its levels."""
    known = Continuations(session, test, fetching=fetching)
    levels = LevelPlanner(session, test)
    chosen = known.chosen()
    for each in chosen:
        artifact = levels.planner.chains.enter(each.test) if each.imports else levels.level(each.level - known.first)
        levels.add(each.test, artifact)
    run = run_plan(session, levels.plan(), limits=limits, fail_fast=False, listener=listener)
    run.raise_interruption()
    results = {result.id: result for result in run.results}
    own = results[test.id]
    if own.outcome == Outcome.PASS:
        raise UsageError(f"{test.id} passes; --over steps looks for the step that makes a test fail")
    if own.outcome == Outcome.INFRA_ERROR or own.outcome in NOT_RUN:
        raise InfrastructureError(f"{test.id}: {own.outcome}: {own.reason}")
    parts = known.parts[: _failing(levels, known, own) + 1]
    cells = [
        ContinuationResult(
            continuation=each,
            answer=answer_of(own, results[each.test.id], results[alike(each.test.id)]),
            result=results[each.test.id],
        )
        for each in chosen
        if each.level < len(parts) - 1
    ]
    observations = [
        LevelObservation(
            continuation=each.continuation.name,
            level=each.continuation.level,
            parts=each.continuation.parts,
            answer=each.answer,
        )
        for each in cells
    ]
    conclusion = conclude(parts, observations, run_fails=own.stage == Stage.RUN)
    return Localized(test=test, result=own, parts=parts, first=known.first, cells=cells, conclusion=conclusion)


def _failing(levels: LevelPlanner, known: Continuations, own: TestResult) -> int:
    """Return the index of the part in which a test fails; of the last one if its outputs are wrong."""
    failed = own.step["action"] if own.step else ""
    for index in range(known.first, len(known.parts) - 1):
        artifact = levels.level(index - known.first)
        if isinstance(artifact, Produced) and artifact.action == failed:
            return index
    return len(known.parts) - 1


def answer_of(own: TestResult, other: TestResult, alike: TestResult) -> Answer:
    """Return what a continuation's result says; ``alike``: that of its comparison with the failing test."""
    if other.outcome == Outcome.PASS:
        return Answer.RIGHT
    if own.outcome == Outcome.MISMATCH:
        if other.outcome != Outcome.MISMATCH:
            return Answer.NONE
        return Answer.SAME if alike.outcome == Outcome.PASS else Answer.OTHER
    if other.outcome in UNKNOWN:
        return Answer.NONE
    is_same = own.stage == Stage.RUN and behaviour_of_run(own).alike(behaviour_of_run(other))
    return Answer.SAME if is_same else Answer.OTHER
