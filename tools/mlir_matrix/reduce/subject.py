"""Find where the reduction of a failing test begins: the level, its IR, and the behaviour that candidates must show."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.actions.params import InputTensor
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import Listener
from mlir_matrix.base.names import IR_TARGET, split_pins, with_pins
from mlir_matrix.bisect.steps.evidence import Answer
from mlir_matrix.bisect.steps.localize import Localized, localize
from mlir_matrix.catalog.catalog import Catalog
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.run_graph import outputs_of
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.recipes import READS_IR, ResolvedStep, resolve_step
from mlir_matrix.expand.tolerances import ToleranceResolver
from mlir_matrix.plan.graph import Graph, Input, PlannedAction, Produced, add_print
from mlir_matrix.plan.parameters import inputs_params
from mlir_matrix.plan.planner import Planner
from mlir_matrix.plan.programs import is_prepared
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests, select_tests
from mlir_matrix.reduce.behaviours import Behaviour, SameFailure, WrongNumbers
from mlir_matrix.reduce.documents import By
from mlir_matrix.reduce.program import KernelSignature, main_of, named_inputs
from mlir_matrix.reduce.sides import Bounds, Side, side_of
from mlir_matrix.reduction.numpy_text import Untranslatable, numpy_text
from mlir_matrix.reduction.tree import Module, ParseError, parse
from mlir_matrix.results.results import NOT_RUN, TestResult
from mlir_matrix.results.run_plan import run_plan
from mlir_matrix.results.signature import Signature

#: The kind of IR that has a reference in NumPy.
_LINALG = "linalg"
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
    return test, result


def _result(session: Session, test: Test, limits: Limits, listener: Listener) -> TestResult:
    """Run a test. Raise InfrastructureError if it cannot run here."""
    run = run_plan(session, plan_tests(session, [test]), limits=limits, fail_fast=False, listener=listener)
    run.raise_interruption()
    (result,) = run.results
    if result.outcome == Outcome.INFRA_ERROR or result.outcome in NOT_RUN:
        raise InfrastructureError(f"{test.id}: {result.outcome}: {result.reason}")
    return result


class Levels:
    """The levels of a test in one graph: what its importer and its steps give."""

    def __init__(self, session: Session, test: Test) -> None:
        self._session, self._test = session, test
        self._planner = Planner(session.catalog, ToleranceResolver(session.catalog).of, session.pins)
        #: The action with the verdict.
        self.last = self._planner.add(test)
        route = test.route
        if route is None:
            (source,) = (each.inputs["ir"] for each in self._steps())
            self._sources: list[Input] = [source]
            self.kinds = [session.catalog.steps[test.pipeline].document.accepts[0]]
            self.names = ["file"]
        else:
            chains = self._planner.chains
            entered = chains.enter(test)
            self._sources = [chains.lower(test, 0, entered, number) for number in range(len(route.steps) + 1)]
            self.kinds = [route.kind, *(step.gives for step in route.steps)]
            self.names = ["import", *(step.name for step in route.steps)]

    @property
    def graph(self) -> Graph:
        return self._planner.graph

    def _steps(self) -> list[PlannedAction]:
        """Return the actions of an IR test's step. One of several RUN lines is enough: they read the same file."""
        actions = [self.graph.actions[name] for name in self.graph.needed_by(self.last)]
        return [each for each in actions if each.id != self.last and "ir" in each.inputs][:1]

    def source(self, number: int) -> Input:
        return self._sources[number]

    def taker(self, number: int) -> PlannedAction | None:
        """Return the step that takes a level; None for the last level."""
        if self._test.route is None:
            return self._steps()[0]
        given = self._sources[number + 1] if number + 1 < len(self._sources) else None
        return self.graph.actions[given.action] if isinstance(given, Produced) else None

    def begin_as(self, others: Levels, number: int) -> bool:
        """Return whether another test has the same levels up to one."""
        end = number + 1
        return (self.kinds[:end], self.names[:end]) == (others.kinds[:end], others.names[:end])

    def first_alike(self, number: int) -> int:
        """Return the first level of the same kind: a workload of that kind goes through all steps from there."""
        return self.kinds.index(self.kinds[number])

    def run(self, test: Test, begin: int) -> str:
        """Return the action that calls the kernel of a test whose route begins at a level of this one."""
        chains = self._planner.chains
        return chains.run(test, chains.lower(test, 0, self._sources[begin]))

    def to_linalg(self, session: Session, test: Test, begin: int, done: int, limits: Limits) -> Side | None:
        """Return the actions of a test from a level of this one to linalg, and those that print it; None without such a level.

        ``done``: how many steps of the test's route come before the level.
        """
        route = test.route
        assert route is not None
        kinds = [route.kind, *(step.gives for step in route.steps)]
        if kinds[done] == _LINALG or _LINALG not in kinds[done:]:
            return None
        last = kinds.index(_LINALG, done)
        given = self._planner.chains.lower(test, done, self._sources[begin], last)
        assert isinstance(given, Produced)
        printed = add_print(self.graph, given, self.graph.actions[given.action])
        return side_of(session, self.graph, printed, self._sources[begin], limits)

    def own_run(self) -> str:
        """Return the action that calls the kernel of this test."""
        return self._planner.chains.run(self._test, self._sources[-1])

    def bounds(self) -> Bounds:
        """Return twice the largest bounds of the outputs."""
        if is_prepared(self._session.catalog, self._session.catalog.workloads[self._test.workload]):
            found = list(self._planner.judging_program(self._test)["bounds"].values())
        else:
            found = [each for each in self._planner.judging(self._test)["outputs"] if "atol" in each]
        atol = max((float(each["atol"]) for each in found), default=0.0)
        rtol = max((float(each["rtol"]) for each in found), default=0.0)
        return Bounds(atol=2 * atol, rtol=2 * rtol)

    def text(self, number: int, limits: Limits) -> str:
        """Return the IR of a level as it is. Raise UsageError if it is not text, or InfrastructureError."""
        source = self._sources[number]
        if isinstance(source, Produced):
            data = self._outputs(self.graph, source.action, f"the level after {self.names[number]}", limits)[
                source.output
            ]
        else:
            data = (self._session.catalog.roots[source.root] / source.path).read_bytes()
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise UsageError(
                f"{self._test.id}: what {self.names[number]} gives is {self.kinds[number]}, neither MLIR nor text"
            ) from None

    def _printer(self, number: int, taker: PlannedAction) -> PlannedAction:
        """Return an action whose compiler prints a level: the step that takes it, or, if that is any program, another one.

        Raise UsageError if no step of the catalog that takes the kind has MLIR's bindings or programs.
        """
        if taker.tool in READS_IR or taker.params.get("backend") == "bindings":
            return taker
        kind = self.kinds[number]
        for name, entry in self._session.catalog.steps.items():
            if entry.document.accepts[0] != kind:
                continue
            resolved = resolve_step(self._session.catalog, name, self._session.pins)
            if isinstance(resolved, ResolvedStep) and resolved.tool in READS_IR:
                made = self._planner.chains.step(name, resolved, self._sources[number], held=False)
                return self.graph.actions[made.action]
        raise UsageError(f"no step of MLIR takes {kind}, so nothing can print what {self.names[number]} gives")

    def module(self, number: int, limits: Limits) -> Module:
        """Return the IR of a level as the release that takes it reads it. Raise UsageError if it cannot, or ParseError."""
        taker = self.taker(number)
        if taker is None:
            raise UsageError(f"no step takes what {self.names[number]} gives")
        kind = self.kinds[number]
        if not self._session.catalog.kinds[kind].document.file.endswith(".mlir"):
            raise UsageError(f"{self._test.id}: what {self.names[number]} gives is {kind}, which is not MLIR")
        printer = self._printer(number, taker)
        graph = Graph(dict(self.graph.actions))
        name = add_print(graph, self._sources[number], printer)
        what = f"the IR after {self.names[number]}, printed for {taker.label}"
        return parse(self._outputs(graph, name, what, limits)["generic"].decode())

    def _outputs(self, graph: Graph, action: str, what: str, limits: Limits) -> dict[str, bytes]:
        """Return the outputs of an action of a graph by name. Raise UsageError if it fails, or InfrastructureError."""
        needed = Graph({each: graph.actions[each] for each in graph.needed_by(action)})
        return outputs_of(self._session, needed, action, what, limits)


def why_not_reducible(result: TestResult) -> str:
    """Return why no smaller program can show how a test ends; empty if one may."""
    if result.target == IR_TARGET and result.outcome == Outcome.MISMATCH:
        return (
            f"its directives are for this program, and no smaller one satisfies them; see: matrix ir --all {result.id}"
        )
    if result.outcome == Outcome.SLOWER:
        return "its program costs more, and is right; a reduction takes a test that fails"
    return ""


def find_subject(
    session: Session,
    test: Test,
    result: TestResult,
    limits: Limits,
    *,
    good: Session | None,
    by: By,
    listener: Listener,
) -> Subject:
    """Find what is reduced of a failing test. ``good``: the session in which the test passes, if one is named.

    Raise UsageError for a test whose program is not MLIR where it fails, InfrastructureError if the machine fails.
    """
    test = replace(test, weak_fails="")
    why = why_not_reducible(result)
    if why:
        raise UsageError(f"{test.id}: {why}")
    if result.verdict is not None and result.outcome == Outcome.MISMATCH:
        return _of_numbers(session, test, result, limits, good=good, listener=listener)
    return _of_failure(session, test, result, limits, good=good, by=by, listener=listener)


def _of_failure(
    session: Session,
    test: Test,
    result: TestResult,
    limits: Limits,
    *,
    good: Session | None,
    by: By,
    listener: Listener,
) -> Subject:
    """Find what is reduced of a test that fails before it has results."""
    levels = Levels(session, test)
    assert result.step is not None
    failed = levels.graph.actions[result.step["action"]]
    numbers = range(len(levels.kinds))
    taken = next((number for number in numbers if levels.taker(number) == failed), None)
    if failed.stage == Stage.IMPORT:
        raise UsageError(
            f"{test.id} fails at {failed.label}, before there is MLIR: {result.reason}; --predicate prints a script for a "
            "reducer of its language"
        )
    begin = levels.first_alike(_readable(session, levels, taken if taken is not None else 0))
    source, text = begin, ""
    module: Module | None = None
    try:
        module = levels.module(begin, limits)
    except (UsageError, ParseError):
        if taken is None:
            raise
        source, text = taken, levels.text(taken, limits)
    name, passing = "", None
    if good is not None:
        name, passing = _good_to_step(good, test, levels, source, taken, limits, listener)
    elif failed.stage == Stage.RUN and module and test.executes:
        # A flaky test may pass now. Then its observations tell.
        with contextlib.suppress(UsageError):
            found = localize(session, test, limits, fetching=False, listener=listener)
            name, passing, _ = _good_side(session, test, found, levels, begin, None, limits, listener)
    hangs = result.outcome == Outcome.TIMED_OUT
    behaviour = SameFailure(
        side=side_of(session, levels.graph, failed.id, levels.source(source), limits),
        good=passing,
        # What is observed in a warm process takes its place.
        wanted=Signature(outcome=result.outcome),
        timeout_s=min(limits.timeout_s, _HANGING_S) if hangs else limits.timeout_s,
        kernel=_kernel(session, test, module) if module and not test.is_ir else None,
        by=by,
        held=" that kind " in result.reason,
    )
    return Subject(
        session=session,
        test=test,
        result=result,
        level=levels.names[begin],
        kind=levels.kinds[begin],
        module=module,
        text=text,
        behaviour=behaviour,
        good=name,
        guilty=failed.label if failed.stage in (Stage.LOWER, Stage.CODEGEN) else "",
    )


def framework_of(catalog: Catalog, kind: str) -> str:
    """Return the framework whose sources are MLIR of a kind; empty if there is none."""
    for name, entry in catalog.frameworks.items():
        if entry.document.emits.get(kind, "").endswith(".mlir"):
            return name
    return ""


def _readable(session: Session, levels: Levels, last: int) -> int:
    """Return the last level up to one that can be a workload, because a framework takes its kind; else that level."""
    kinds = levels.kinds[: last + 1]
    return next((number for number in range(last, -1, -1) if framework_of(session.catalog, kinds[number])), last)


def _of_numbers(
    session: Session, test: Test, result: TestResult, limits: Limits, *, good: Session | None, listener: Listener
) -> Subject:
    """Find what is reduced of a test whose outputs are wrong."""
    found = localize(session, test, limits, fetching=False, listener=listener)
    levels = Levels(session, test)
    begin, module = _best_level(levels, found.steps_before_suspects, limits)
    name, side, linalg = _good_side(session, test, found, levels, begin, good, limits, listener)
    behaviour = WrongNumbers(
        bad=side_of(session, levels.graph, levels.own_run(), levels.source(begin), limits),
        good=side,
        linalg=linalg,
        kernel=_kernel(session, test, module),
        bounds=levels.bounds(),
        timeout_s=limits.timeout_s,
    )
    return Subject(
        session=session,
        test=test,
        result=result,
        level=levels.names[begin],
        kind=levels.kinds[begin],
        module=module,
        text="",
        behaviour=behaviour,
        good=name,
        guilty=found.suspects[0] if len(found.suspects) == 1 else "",
    )


def _best_level(levels: Levels, steps: int, limits: Limits) -> tuple[int, Module]:
    """Return the last level before the wrong step for which NumPy has a reference, else the input of that step."""
    readable: list[tuple[int, Module]] = []
    for begin in dict.fromkeys(levels.first_alike(number) for number in range(steps, -1, -1)):
        try:
            readable.append((begin, levels.module(begin, limits)))
            numpy_text(readable[-1][1])
        except (Untranslatable, ParseError, UsageError):
            continue
        return readable[-1]
    if not readable:
        raise UsageError(f"no level of the test up to {levels.names[steps]} is MLIR that can be read")
    return readable[0]


def _good_side(
    session: Session,
    test: Test,
    found: Localized,
    levels: Levels,
    begin: int,
    good: Session | None,
    limits: Limits,
    listener: Listener,
) -> tuple[str, Side | None, Side | None]:
    """Return the name of what is right from a level, its actions, and those up to linalg, which is printed."""
    if good is not None:
        passing = _passing_test(good, test, limits, listener)
        others = Levels(good, passing)
        if not levels.begin_as(others, begin):
            raise UsageError(f"--good: with these pins, {test.id} goes another way to {levels.kinds[begin]}")
        side = side_of(good, others.graph, others.own_run(), others.source(begin), limits)
        return _pins_of(good), side, others.to_linalg(good, passing, begin, begin, limits)
    right = [
        cell.continuation
        for cell in found.cells
        if cell.answer == Answer.RIGHT
        and cell.continuation.level == found.first + begin
        and not cell.continuation.imports
    ]
    if not right:
        return "", None, None
    best = min(right, key=lambda each: (not _has_linalg(each.test), "@" in each.name, each.test.target != test.target))
    run = levels.run(best.test, begin)
    side = side_of(session, levels.graph, run, levels.source(begin), limits)
    return best.name, side, levels.to_linalg(session, best.test, begin, 0, limits)


def _good_to_step(
    good: Session, test: Test, levels: Levels, begin: int, taken: int | None, limits: Limits, listener: Listener
) -> tuple[str, Side | None]:
    """Return the name of what is right, and its actions from a level to the step that takes another one, or to the outputs.

    ``taken``: None for a failure after the last level. There are no actions if nothing runs then, or if the test goes another way.
    """
    passing = _passing_test(good, test, limits, listener)
    others = Levels(good, passing)
    if not levels.begin_as(others, begin if taken is None else taken):
        return "", None
    if taken is not None:
        taker = others.taker(taken)
        last = taker.id if taker else ""
    else:
        last = others.own_run() if passing.executes else ""
    if not last:
        return "", None
    return _pins_of(good), side_of(good, others.graph, last, others.source(begin), limits)


def _passing_test(good: Session, test: Test, limits: Limits, listener: Listener) -> Test:
    """Return a test in the session in which it passes. Raise UsageError if it does not, InfrastructureError if it cannot run."""
    # Pins of the identifier would win.
    identifier, own = split_pins(test.id)
    kept = [pin for pin in own.split(",") if pin and pin.partition("=")[0] not in good.pins.overrides]
    passing = [each for each in select_tests(good, [with_pins(identifier, ",".join(kept))]) if each.outcome is None]
    if len(passing) != 1:
        raise UsageError(f"--good: {test.id} cannot run with these pins")
    result = _result(good, passing[0], limits, listener)
    if result.outcome != Outcome.PASS:
        raise UsageError(f"--good: {test.id} does not pass with these pins: {result.reason}")
    return passing[0]


def _pins_of(good: Session) -> str:
    return ", ".join(f"{name} {release}" for name, release in good.pins.overrides.items())


def _has_linalg(test: Test) -> bool:
    """Return whether the route of a test has a level of which a reference can be made.

    Of several continuations such a one is taken, of this release first: another one is often programs, each a process of its own.
    Then one of the test's target: another one may be emulated.
    """
    assert test.route is not None
    return _LINALG in (test.route.kind, *(step.gives for step in test.route.steps))


def _kernel(session: Session, test: Test, module: Module) -> KernelSignature:
    """Return what a kernel of the test takes and gives, and name the arguments of ``@main``."""
    workload = session.catalog.workloads[test.workload]
    main = main_of(module)
    if is_prepared(session.catalog, workload) or main is None:
        # A program's own code makes its inputs: candidates get numbers of the same types.
        return KernelSignature(inputs={}, dims={}, dtypes={})
    inputs: Mapping[str, InputTensor] = {each["name"]: each for each in inputs_params(workload.document)["inputs"]}
    named_inputs(module, list(inputs))
    kinds = [value.type for value in main.regions[0][0].operations[-1].operands]
    dtypes: Sequence[str] = [output.dtype for output in workload.document.outputs.values()]
    return KernelSignature(inputs=inputs, dims=workload.document.dims, dtypes=dict(zip(kinds, dtypes, strict=False)))
