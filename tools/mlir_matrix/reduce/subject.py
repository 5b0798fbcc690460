"""Find where the reduction of a failing test begins: the level, its IR, and the behaviour that candidates must show."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.actions.params import InputTensor
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import Listener
from mlir_matrix.base.names import IR_TARGET, split_pins, with_pins
from mlir_matrix.bisect.steps.evidence import Answer
from mlir_matrix.bisect.steps.localize import Localized, localize
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.parameters import inputs_params
from mlir_matrix.plan.programs import is_prepared
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests, select_tests
from mlir_matrix.reduce.behaviours import Behaviour, SameFailure, WrongNumbers
from mlir_matrix.reduce.documents import By
from mlir_matrix.reduce.levels import LINALG, Levels, best_level, last_readable
from mlir_matrix.reduce.program import KernelSignature, main_of, named_inputs
from mlir_matrix.reduce.sides import Side, side_of
from mlir_matrix.reduction.tree import Module, ParseError
from mlir_matrix.results.results import NOT_RUN, TestResult
from mlir_matrix.results.run_plan import run_plan
from mlir_matrix.results.signature import Signature

#: A time-out is reduced under at most this limit, in seconds, because each candidate that still hangs takes so long. The result
#: is verified under the limit of the test.
_HANGING_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is reduced."""

    session: Session
    test: Test
    result: TestResult
    #: What gives the level: ``import``, or the name of a step; ``file`` for the file of an IR test.
    level: str
    #: The kind of its IR.
    kind: str
    #: None if the release cannot read it as a module; then ``text`` is reduced by lines.
    module: Module | None
    text: str
    behaviour: Behaviour
    #: The name of what is right where the test is wrong; empty if none is known, or needed.
    good: str
    #: The step that is wrong, if that is known.
    guilty: str


def failing_test(session: Session, name: str, limits: Limits, listener: Listener) -> tuple[Test, TestResult]:
    """Run a test, and return it with its result. Raise UsageError unless it fails, InfrastructureError if it cannot run."""
    found = [each for each in select_tests(session, [name]) if each.selected]
    if len(found) != 1:
        raise UsageError(f"{name}: expected one test, this selects {len(found)}; matrix plan lists them")
    (test,) = found
    if test.tested_property:
        raise UsageError(f"{test.id} tests a property, which compares two runs; a reduction takes a test of one")
    result = _result(session, test, limits, listener)
    if result.outcome == Outcome.PASS:
        raise UsageError(f"{test.id} passes; a reduction takes a test that fails")
    # Whether a trivial output would pass, too, says nothing about the program.
    return replace(test, weak_fails=""), result


def _result(session: Session, test: Test, limits: Limits, listener: Listener) -> TestResult:
    """Run a test. Raise InfrastructureError if it cannot run here."""
    run = run_plan(session, plan_tests(session, [test]), limits=limits, fail_fast=False, listener=listener)
    run.raise_interruption()
    (result,) = run.results
    if result.outcome == Outcome.INFRA_ERROR or result.outcome in NOT_RUN:
        raise InfrastructureError(f"{test.id}: {result.outcome}: {result.reason}")
    return result


def why_not_reducible(result: TestResult) -> str:
    """Return why no smaller program can show how a test ends; empty if one may."""
    if result.target == IR_TARGET and result.outcome == Outcome.MISMATCH:
        return (
            f"its directives are for this program, and no smaller one satisfies them; see: matrix ir --all {result.id}"
        )
    if result.outcome == Outcome.SLOWER:
        return "its program costs more, and is right; a reduction takes a test that fails"
    return ""


@dataclass(frozen=True, kw_only=True)
class SubjectFinder:
    """Finds what is reduced of a failing test."""

    session: Session
    test: Test
    result: TestResult
    limits: Limits
    #: The session in which the test passes, if one is named.
    good: Session | None
    by: By
    listener: Listener

    def find(self) -> Subject:
        """Find it.

        Raise UsageError for a test whose program is not MLIR where it fails, InfrastructureError if the machine fails.
        """
        why = why_not_reducible(self.result)
        if why:
            raise UsageError(f"{self.test.id}: {why}")
        if self.result.verdict is not None and self.result.outcome == Outcome.MISMATCH:
            return self._of_numbers()
        return self._of_failure()

    @cached_property
    def _levels(self) -> Levels:
        return Levels(self.session, self.test, self.limits)

    def _of_failure(self) -> Subject:
        """Find what is reduced of a test that fails before it has results."""
        test, levels = self.test, self._levels
        assert self.result.step is not None
        failed = levels.graph.actions[self.result.step["action"]]
        numbers = range(len(levels.kinds))
        taken = next((number for number in numbers if levels.taker(number) == failed), None)
        if failed.stage == Stage.IMPORT:
            raise UsageError(
                f"{test.id} fails at {failed.label}, before there is MLIR: {self.result.reason}; --predicate prints a script "
                "for a reducer of its language"
            )
        begin = levels.first_alike(last_readable(self.session.catalog, levels, taken if taken is not None else 0))
        source, text = begin, ""
        module: Module | None = None
        try:
            module = levels.module(begin)
        except (UsageError, ParseError):
            if taken is None:
                raise
            source, text = taken, levels.text(taken)
        name, passing = "", None
        if self.good is not None:
            name, passing = self._good_to_step(self.good, source, taken)
        elif failed.stage == Stage.RUN and module and test.executes:
            # A flaky test may pass now. Then its observations tell.
            with contextlib.suppress(UsageError):
                found = localize(self.session, test, self.limits, fetching=False, listener=self.listener)
                name, passing, _ = self._right_continuation(found, begin)
        hangs = self.result.outcome == Outcome.TIMED_OUT
        timeout_s = self.limits.timeout_s
        behaviour = SameFailure(
            side=side_of(self.session, levels.graph, failed.id, levels.source(source), self.limits),
            good=passing,
            # What is observed in a warm process takes its place.
            wanted=Signature(outcome=self.result.outcome),
            timeout_s=min(timeout_s, _HANGING_S) if hangs else timeout_s,
            kernel=self._kernel(module) if module and not test.is_ir else None,
            by=self.by,
            held=" that kind " in self.result.reason,
        )
        guilty = failed.label if failed.stage in (Stage.LOWER, Stage.CODEGEN) else ""
        return self._subject(begin, module, behaviour, text=text, good=name, guilty=guilty)

    def _of_numbers(self) -> Subject:
        """Find what is reduced of a test whose outputs are wrong."""
        levels = self._levels
        found = localize(self.session, self.test, self.limits, fetching=False, listener=self.listener)
        begin, module = best_level(levels, found.steps_before_suspects)
        if self.good is not None:
            name, side, linalg = self._good_from_level(self.good, begin)
        else:
            name, side, linalg = self._right_continuation(found, begin)
        behaviour = WrongNumbers(
            bad=side_of(self.session, levels.graph, levels.own_run(), levels.source(begin), self.limits),
            good=side,
            linalg=linalg,
            kernel=self._kernel(module),
            bounds=levels.bounds(),
            timeout_s=self.limits.timeout_s,
        )
        guilty = found.suspects[0] if len(found.suspects) == 1 else ""
        return self._subject(begin, module, behaviour, text="", good=name, guilty=guilty)

    def _subject(
        self, begin: int, module: Module | None, behaviour: Behaviour, *, text: str, good: str, guilty: str
    ) -> Subject:
        return Subject(
            session=self.session,
            test=self.test,
            result=self.result,
            level=self._levels.names[begin],
            kind=self._levels.kinds[begin],
            module=module,
            text=text,
            behaviour=behaviour,
            good=good,
            guilty=guilty,
        )

    def _good_from_level(self, good: Session, begin: int) -> tuple[str, Side | None, Side | None]:
        """Return the name of the session in which the test passes, its actions from a level, and those up to linalg."""
        passing = self._passing_test(good)
        others = Levels(good, passing, self.limits)
        if not self._levels.begin_as(others, begin):
            kind = self._levels.kinds[begin]
            raise UsageError(f"--good: with these pins, {self.test.id} goes another way to {kind}")
        side = side_of(good, others.graph, others.own_run(), others.source(begin), self.limits)
        return _pins_of(good), side, others.to_linalg(passing, begin, begin)

    def _right_continuation(self, found: Localized, begin: int) -> tuple[str, Side | None, Side | None]:
        """Return the name of what is right from a level, its actions, and those up to linalg, which is printed."""
        right = [
            cell.continuation
            for cell in found.cells
            if cell.answer == Answer.RIGHT
            and cell.continuation.level == found.first + begin
            and not cell.continuation.imports
        ]
        if not right:
            return "", None, None
        target = self.test.target
        best = min(right, key=lambda each: (not _has_linalg(each.test), "@" in each.name, each.test.target != target))
        levels = self._levels
        run = levels.run(best.test, begin)
        side = side_of(self.session, levels.graph, run, levels.source(begin), self.limits)
        return best.name, side, levels.to_linalg(best.test, begin, 0)

    def _good_to_step(self, good: Session, begin: int, taken: int | None) -> tuple[str, Side | None]:
        """Return the name of what is right, and its actions from a level to the step that takes another one, or to the outputs.

        ``taken``: None for a failure after the last level. There are no actions if nothing runs then, or if the test goes another
        way.
        """
        passing = self._passing_test(good)
        others = Levels(good, passing, self.limits)
        if not self._levels.begin_as(others, begin if taken is None else taken):
            return "", None
        if taken is not None:
            taker = others.taker(taken)
            last = taker.id if taker else ""
        else:
            last = others.own_run() if passing.executes else ""
        if not last:
            return "", None
        return _pins_of(good), side_of(good, others.graph, last, others.source(begin), self.limits)

    def _passing_test(self, good: Session) -> Test:
        """Return the test in the session in which it passes.

        Raise UsageError if it does not pass, InfrastructureError if it cannot run.
        """
        # Pins of the identifier would win.
        name = self.test.id
        identifier, own = split_pins(name)
        kept = [pin for pin in own.split(",") if pin and pin.partition("=")[0] not in good.pins.overrides]
        passing = [each for each in select_tests(good, [with_pins(identifier, ",".join(kept))]) if each.outcome is None]
        if len(passing) != 1:
            raise UsageError(f"--good: {name} cannot run with these pins")
        result = _result(good, passing[0], self.limits, self.listener)
        if result.outcome != Outcome.PASS:
            raise UsageError(f"--good: {name} does not pass with these pins: {result.reason}")
        return passing[0]

    def _kernel(self, module: Module) -> KernelSignature:
        """Return what a kernel of the test takes and gives, and name the arguments of ``@main``."""
        catalog = self.session.catalog
        workload = catalog.workloads[self.test.workload]
        main = main_of(module)
        if is_prepared(catalog, workload) or main is None:
            # A program's own code makes its inputs: candidates get numbers of the same types.
            return KernelSignature(inputs={}, dims={}, dtypes={})
        inputs: Mapping[str, InputTensor] = {each["name"]: each for each in inputs_params(workload.document)["inputs"]}
        named_inputs(module, list(inputs))
        kinds = [value.type for value in main.regions[0][0].operations[-1].operands]
        dtypes: Sequence[str] = [output.dtype for output in workload.document.outputs.values()]
        return KernelSignature(
            inputs=inputs, dims=workload.document.dims, dtypes=dict(zip(kinds, dtypes, strict=False))
        )


def _pins_of(good: Session) -> str:
    return ", ".join(f"{name} {release}" for name, release in good.pins.overrides.items())


def _has_linalg(test: Test) -> bool:
    """Return whether the route of a test has a level of which a reference can be made.

    Of several continuations such a one is taken, of this release first: another one is often programs, each a process of its own.
    Then one of the test's target: another one may be emulated.
    """
    return LINALG in test.known_route.kinds
