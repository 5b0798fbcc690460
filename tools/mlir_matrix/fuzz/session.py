"""The loop of ``matrix fuzz``: compose programs and run them in batches, or run what catalogs have; find those that fail."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mlir_matrix.actions.outcomes import Outcome, Stage
from mlir_matrix.actions.runtime.child import failed_outcome
from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.base.errors import UsageError
from mlir_matrix.base.events import Listener
from mlir_matrix.base.files import sole_user
from mlir_matrix.base.names import MEMBER
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose
from mlir_matrix.fuzz.compose import Composer, Coverage
from mlir_matrix.fuzz.profiles import CORPORA, ROUNDS, WORKLOADS, Profile
from mlir_matrix.fuzz.programs import AnyProgram, CorpusMember, write_programs
from mlir_matrix.fuzz.resized_workloads import draw_resized
from mlir_matrix.fuzz.routes import COMPOSED, LOWERS_VECTORS, TO_LOOPS, ComposedRoute, draw_routes, write_route
from mlir_matrix.fuzz.stablehlo_text import STABLEHLO
from mlir_matrix.fuzz.tosa_text import TOSA
from mlir_matrix.fuzz.values import Program, merged
from mlir_matrix.plan.levels import COMPILING
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests, session_of
from mlir_matrix.results.repeats import unstable_in_run, with_repeats, without_copy
from mlir_matrix.results.results import NOT_RUN, Run, TestResult, raise_infrastructure_error
from mlir_matrix.results.run_plan import run_plan

if TYPE_CHECKING:
    from mlir_matrix.compare.documents import Census

#: Programs of a batch, which are one function, and batches of a round, which are one run: first so few, then twice as many each.
BATCH, FIRST, BATCHES = 12, 2, 12
#: The least and the largest number of operations of a program.
_LENGTHS = (2, 6)
#: Of the names of all workloads.
_PREFIX = "composed-"
#: The cells in which PyTorch runs programs without a compiler.
_TORCH_EAGER = "pytorch/torch-eager/*"
#: In the folder of a session, the catalogs of what runs.
_ROUND, _SINGLES, VARIANTS = "round", "singles", "variants"
#: The steps that convert PyTorch's programs to dialects that lack some of its operations.
_CONVERTED = {"torch-to-tosa": TOSA, "torch-to-stablehlo": STABLEHLO}
#: Composed routes of a round.
ROUTES = 3
#: How many members of corpora a round has.
_MEMBERS = 48
#: How the names of composed routes end that have nothing of what was drawn.
_PLAIN = "-plain"
#: One of so many programs that pass is compiled again.
_COMPILED_AGAIN = 8


@dataclass(frozen=True)
class WantedRoutes:
    """Which routes are fuzzed: those whose cells match one of the globs and, if it is named, that have a step."""

    cells: Sequence[str]
    step: str = ""


@dataclass(frozen=True)
class Failure:
    """A program that fails on a route, alone, or with the others of its batch, which are then part of it."""

    program: AnyProgram
    #: How its test ended.
    result: TestResult
    profile: Profile
    round: int

    @property
    def origin(self) -> str:
        """The workload of the catalog that it is; empty for a composed program."""
        return self.program.origin

    @property
    def place(self) -> str:
        """The step that fails; the cell where the program fails, or its result is wrong."""
        step = self.result.step
        if step is None or self.result.stage in (Stage.RUN, Stage.JUDGE):
            return self.result.identity.cell
        return str(step["name"])


class RouteVariant(NamedTuple):
    """How a route differs from a composed one: a pass or step is left out, or it is the only one; empty: there is none."""

    part: str
    alone: bool


@dataclass
class FuzzCounts:
    """What a session has done."""

    programs: int = 0
    #: Programs by the routes that they were judged on.
    judged: int = 0
    #: Results by the routes that they were judged on, and how many of them would also pass without the program.
    outputs: int = 0
    weak: int = 0
    #: How many of them are wrong only where no bound could be derived.
    undecided: int = 0
    rounds: int = 0
    #: The cells that programs ran in.
    routes: set[str] = field(default_factory=set)
    coverage: Coverage = field(default_factory=Coverage)


class Fuzzer:
    """Runs composed programs, workloads in other sizes, and members of corpora, until a budget is used."""

    def __init__(
        self, session: Session, wanted: WantedRoutes, folder: Path, seed: int, limits: Limits, listener: Listener
    ) -> None:
        self._session, self._wanted, self._folder, self._seed = session, wanted, folder, seed
        self._limits, self._listener = limits, listener
        self._shunned: set[tuple[str, frozenset[str]]] = set()
        #: Passes and steps that are wrong, and the last round whose routes have them.
        self._avoided: dict[str, int] = {}
        self.counts = FuzzCounts()

    def shun(self, place: str, operations: frozenset[str]) -> None:
        """Do not run programs with all these operations by a step, or in a cell, any more: how they end is known."""
        self._shunned.add((place, operations))

    def avoid(self, parts: Collection[str]) -> None:
        """Compose no routes with these passes and steps from the next round on: they are wrong."""
        for part in parts:
            self._avoided.setdefault(part, self.counts.rounds)

    def failures(self, until: Callable[[], bool]) -> Iterator[Failure]:
        """Yield each program that fails, until ``until`` returns True. Raise UsageError and InfrastructureError."""
        while not (until() and self.counts.judged):
            profile = _profile_of(self.counts.rounds)
            if profile is WORKLOADS:
                yield from self._of_workloads(profile)
            elif profile is CORPORA:
                yield from self._of_corpora(profile)
            else:
                yield from self._of_programs(profile)
            if self.counts.judged:
                self.counts.rounds += 1
            elif profile is not CORPORA:
                # The first profile has all sources. Routes that take none of them may take members of corpora.
                self.counts.rounds = len(ROUNDS) - 1
            else:
                step = f" and has the step {self._wanted.step}" if self._wanted.step else ""
                raise UsageError(f"{' '.join(self._wanted.cells)}: no such route takes composed programs{step}")

    def _of_programs(self, profile: Profile) -> Iterator[Failure]:
        """Compose programs; yield those that fail."""
        composer = Composer(f"{self._seed}/{self.counts.rounds}", profile, self.counts.coverage)
        count = BATCH * min(FIRST << self.counts.rounds, BATCHES)
        programs = list(islice(composer.programs(_LENGTHS), count))
        # A batch is not run where one of its programs is shunned, so these are in as few batches as possible.
        programs.sort(key=lambda program: any(_has(program, operations) for _, operations in self._shunned))
        batches = {
            f"{_PREFIX}r{self.counts.rounds}b{number}": programs[number * BATCH : (number + 1) * BATCH]
            for number in range(len(programs) // BATCH)
        }
        session, tests = self._planned(_ROUND, batches, profile)
        results = self._results(session, tests)
        self.counts.programs += sum(len(batches[batch]) for batch in {result.workload for result in results})
        failed: dict[tuple[str, str], TestResult] = {}
        for result in results:
            self._count(result, batches[result.workload])
            if fails(result):
                failed[result.workload, result.identity.cell] = result
        singles = {
            f"{batch}p{number}": (program,)
            for batch in sorted({batch for batch, _ in failed})
            for number, program in enumerate(batches[batch])
        }
        for result in self._singly(singles, profile, failed):
            if fails(result):
                failed.pop((_batch_of(result.workload), result.identity.cell), None)
                yield Failure(*singles[result.workload], result, profile, self.counts.rounds)
        # Some batches fail only as a whole. Those that are compiled again are not divided.
        for result in chain(failed.values(), self._compiled_again(session, tests, results)):
            yield Failure(merged(batches[result.workload]), result, profile, self.counts.rounds)

    def _of_workloads(self, profile: Profile) -> Iterator[Failure]:
        """Yield workloads of the catalog that fail in other sizes, where they pass in their own.

        A program may depend on a size otherwise than by its types. So one of a framework counts if it passes on another route.
        """
        chance = random.Random(f"{self._seed}/{self.counts.rounds}/sizes")
        drawn = draw_resized(self._session.catalog, chance)
        resized = {f"{_PREFIX}r{self.counts.rounds}-{name}": workload for name, workload in drawn.items()}
        session = self._written(_ROUND, resized, profile)
        tests = self._tests(session, profile)
        if not any(test.framework == "pytorch" for test in tests):
            return
        eager = self._by_pytorch(session)
        valid = {result.workload: resized[result.workload] for result in eager}
        meant = [test for test in tests if test.workload in valid]
        results = self._results(session, [test for test in meant if not self._is_shunned(test, [valid[test.workload]])])
        self.counts.programs += len({result.workload for result in results})
        passes = Counter((result.workload, result.framework) for result in eager)
        passes.update((result.workload, result.framework) for result in results if result.outcome == Outcome.PASS)
        failed: dict[str, TestResult] = {}
        for result in results:
            workload = valid[result.workload]
            others = passes[result.workload, result.framework]
            if result.outcome == Outcome.PASS:
                others -= 1
            if not others:
                continue
            self._count(result, [workload])
            if fails(result):
                failed[f"{result.identity.cell}/{workload.origin}"] = result
        if not failed:
            return
        for own in self._results(session, _chosen(session, [*failed])):
            if own.outcome == Outcome.PASS:
                result = failed[own.id]
                yield Failure(valid[result.workload], result, profile, self.counts.rounds)

    def _of_corpora(self, profile: Profile) -> Iterator[Failure]:
        """Yield members of corpora that fail on a composed route, where they pass on one without what is drawn."""
        members = self._members()
        if not members:
            return
        session = self._written(_ROUND, members, profile)
        tests = self._tests(session, profile, f"{{{','.join(members)}}}")
        composed = [test for test in tests if test.pipeline.startswith(COMPOSED) and not test.pipeline.endswith(_PLAIN)]
        plain = {
            test.id: "/".join((test.framework, test.pipeline + _PLAIN, test.target, test.workload)) for test in composed
        }
        if not plain:
            return
        by_plain = self._results(session, _chosen(session, sorted({*plain.values()})))
        right = {result.id for result in by_plain if result.outcome == Outcome.PASS}
        meant = [test for test in composed if plain[test.id] in right]
        results = self._results(
            session, [test for test in meant if not self._is_shunned(test, [members[test.workload]])]
        )
        self.counts.programs += len({result.workload for result in results})
        for result in results:
            member = members[result.workload]
            self._count(result, [member])
            if fails(result):
                yield Failure(member, result, profile, self.counts.rounds)

    def _members(self) -> dict[str, CorpusMember]:
        """Draw members of corpora, as many of each corpus that has so many."""
        by_corpus: dict[str, list[str]] = defaultdict(list)
        for name, entry in self._session.catalog.workloads.items():
            if entry.member:
                by_corpus[name.partition(MEMBER)[0]].append(name)
        chance = random.Random(f"{self._seed}/{self.counts.rounds}/members")
        most = ceil(_MEMBERS / max(len(by_corpus), 1))
        drawn = chain.from_iterable(chance.sample(names, min(most, len(names))) for names in by_corpus.values())
        return {name: CorpusMember(name) for name in drawn}

    def _by_pytorch(self, session: Session) -> list[TestResult]:
        """Return the results of workloads for which PyTorch without a compiler gives what the reference says."""
        results = self._ran(session, _chosen(session, [f"{_TORCH_EAGER}/{_PREFIX}*"]))
        # At the stage of the judge, it may be the reference that does not take these sizes.
        raise_infrastructure_error(result for result in results if result.stage != "judge")
        return [result for result in results if result.outcome == Outcome.PASS]

    def _count(self, result: TestResult, programs: Sequence[AnyProgram]) -> None:
        self.counts.judged += len(programs)
        self.counts.outputs += len(result.verdict["outputs"]) if result.verdict else 0
        self.counts.weak += len(result.weak)
        self.counts.undecided += len(_undecided(result))
        self.counts.routes.add(result.identity.cell)

    def _singly(
        self, programs: Mapping[str, Sequence[Program]], profile: Profile, failed: Collection[tuple[str, str]]
    ) -> list[TestResult]:
        """Run each program where its batch failed; return the results."""
        if not programs:
            return []
        session, tests = self._planned(_SINGLES, programs, profile)
        again = [test for test in tests if (_batch_of(test.workload), test.identity.cell) in failed]
        return self._results(session, again)

    def _planned(
        self, folder: str, programs: Mapping[str, Sequence[Program]], profile: Profile
    ) -> tuple[Session, list[Test]]:
        """Write functions of some programs each; return a session with them, and their tests on all routes."""
        session = self._written(folder, {name: merged(some) for name, some in programs.items()}, profile)
        tests = self._tests(session, profile)
        return session, [test for test in tests if not self._is_shunned(test, programs[test.workload])]

    def _compiled_again(
        self, session: Session, tests: Iterable[Test], results: Iterable[TestResult]
    ) -> Iterator[TestResult]:
        """Compile some programs that pass once more; yield those that a step compiles differently, or not at all."""
        chance = random.Random(f"{self._seed}/{self.counts.rounds}/again")
        passed = {result.id: result for result in results if result.outcome == Outcome.PASS}
        right = [test for test in tests if test.id in passed]
        plan = plan_tests(session, chance.sample(right, ceil(len(right) / _COMPILED_AGAIN)))
        once = dict.fromkeys(plan.verdicts, 1)
        twice = with_repeats(plan, once, once, stages=COMPILING)
        run = self._executed(session, twice)
        raise_infrastructure_error(run.results)
        changing = unstable_in_run(twice, run.done)
        for test, steps in changing.items():
            yield _unstable_result(plan, passed[test], steps)
        for result in run.results:
            test = without_copy(result.id)
            if fails(result) and test not in changing:
                yield replace(result, id=test)

    def _written(self, folder: str, programs: Mapping[str, AnyProgram], profile: Profile) -> Session:
        """Write programs into a folder of the session, which is a catalog; return a session with it."""
        root = self._folder / folder
        remove_folder(str(root))
        self.write(root, programs, profile, self.counts.rounds)
        return self.session_with(root)

    def _results(self, session: Session, tests: Iterable[Test]) -> list[TestResult]:
        """Run tests; return the results of those that ran. Raise InfrastructureError."""
        results = self._ran(session, tests)
        raise_infrastructure_error(results)
        return results

    def _ran(self, session: Session, tests: Iterable[Test]) -> list[TestResult]:
        run = self._executed(session, plan_tests(session, tests))
        return [result for result in run.results if result.outcome not in NOT_RUN]

    def _executed(self, session: Session, plan: PlannedTests) -> Run:
        """Run a plan. Raise its interruption."""
        run = run_plan(session, plan, limits=self._limits, fail_fast=False, listener=self._listener)
        run.raise_interruption()
        return run

    def _tests(self, session: Session, profile: Profile, workloads: str = f"{_PREFIX}*") -> list[Test]:
        """Return the tests of workloads that a glob names on all routes that take them."""
        found = []
        for test in _chosen(session, [f"{cell}/{workloads}" for cell in self._wanted.cells]):
            steps = _steps_of(test)
            if self._wanted.step and self._wanted.step not in steps:
                continue
            takes_vectors = LOWERS_VECTORS in steps or not profile.vectors
            if test.selected and takes_vectors and _dialects_of(steps) <= {*profile.sources}:
                found.append(test)
        return found

    def _is_shunned(self, test: Test, programs: Sequence[AnyProgram]) -> bool:
        places = {test.identity.cell, *_steps_of(test)}
        here = [operations for place, operations in self._shunned if place in places]
        return any(_has(program, operations) for operations in here for program in programs)

    def write(self, root: Path, programs: Mapping[str, AnyProgram], profile: Profile, round: int) -> None:
        """Write a catalog of programs, with the composed routes of a round."""
        write_programs(root, programs, profile.sources)
        for name, route in self._routes(round).items():
            write_route(root, name, route)
            if profile is CORPORA:
                write_route(root, name + _PLAIN, route.without(route.parts))

    def write_variants(self, root: Path, name: str, round: int) -> dict[str, RouteVariant]:
        """Write a composed route without each of its passes and steps, with each alone, and with none; return these by route."""
        route = self._routes(round)[name]
        parts = route.parts - {LOWERS_VECTORS, self._wanted.step}
        kinds = [RouteVariant(part, alone=False) for part in sorted(parts)]
        kinds += [RouteVariant(part, alone=True) for part in ("", *sorted(parts))]
        variants = {f"{COMPOSED}-{number}": variant for number, variant in enumerate(kinds)}
        for variant_name, variant in variants.items():
            left_out = parts - {variant.part} if variant.alone else {variant.part}
            write_route(root, variant_name, route.without(left_out))
        return variants

    def _routes(self, round: int) -> dict[str, ComposedRoute]:
        """Return the composed routes of a round."""
        chance = random.Random(f"{self._seed}/{round}/routes")
        profile = _profile_of(round)
        loops = [*TO_LOOPS]
        if profile in (WORKLOADS, CORPORA):
            # Some have operations that are not linalg's.
            loops = []
        elif profile.dynamic:
            # No affine loop has a size that is read in a region.
            loops.remove("affine")
        drawn = draw_routes(self._session.catalog, ROUTES, chance, self._wanted.step, loops)
        avoided = {part for part, last in self._avoided.items() if last < round}
        return {name: route.without(avoided) for name, route in drawn.items()}

    def session_with(self, root: Path) -> Session:
        """Return the session with a catalog of programs."""
        known = self._session.catalog
        # With the releases of the user's own builds.
        catalog = replace(session_of([*known.roots, root], self._session.home).catalog, components=known.components)
        return replace(self._session, catalog=catalog, pins=replace(self._session.pins, catalog=catalog))


@contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Make the folder of a session, which no other may use. In the end, remove its programs. Raise UsageError."""
    with sole_user(folder, f"another session writes into {folder}; name another folder with --out"):
        yield
        for name in (_ROUND, _SINGLES, VARIANTS):
            remove_folder(str(folder / name))


def _chosen(session: Session, globs: Sequence[str]) -> list[Test]:
    """Return tests that globs name. Results that tell nothing, and costs, are no failures of theirs."""
    tests = choose(session.catalog, globs, pins=session.pins).tests()
    return [replace(test, weak_fails="", cost=None) for test in tests]


def _unstable_result(plan: PlannedTests, result: TestResult, steps: Sequence[str]) -> TestResult:
    """Return the result of a test of which a step gives other bytes for the same input: a failure of the first such step."""
    actions = [plan.graph.actions[name] for name in plan.needed_by(result.id)]
    first = next(action for action in actions if action.label == steps[0])
    # The passes tell steps of composed routes apart, whatever their order.
    passes = ", ".join(sorted({*first.params.get("passes", "").split(",")}))
    return replace(
        result,
        outcome=Outcome(failed_outcome(first.stage)),
        stage=first.stage,
        reason=" ".join([f"{steps[0]}: gives other bytes for the same input", passes]).strip(),
        step={"name": steps[0], "action": first.id},
        unstable=steps,
    )


def _profile_of(round: int) -> Profile:
    return ROUNDS[round % len(ROUNDS)]


def fails(result: TestResult) -> bool:
    """Return whether a result is a finding: the program is refused, crashes, or gives wrong outputs.

    An element without a bound of its own is not wrong, and neither is IR in another form than directives of FileCheck want.
    """
    if result.outcome == Outcome.MISMATCH:
        if result.verdict is None:
            return False
        wrong = [output for output in result.verdict["outputs"] if output["outcome"] != "pass"]
        return len(wrong) > len(_undecided(result))
    return result.outcome != Outcome.PASS


def _undecided(result: TestResult) -> list[Census]:
    """Return the outputs whose wrong elements all lack a bound of their own: that of a layer is not meant for this program."""
    outputs = result.verdict["outputs"] if result.verdict is not None else []
    return [
        output for output in outputs if output.get("wrong_by_layer") and output["wrong_by_layer"] == output["wrong"]
    ]


def _steps_of(test: Test) -> list[str]:
    return [step.name for step in test.route.steps] if test.route else []


def _dialects_of(steps: Sequence[str]) -> set[str]:
    """Return the sources in whose dialects a program is between steps."""
    return {_CONVERTED[step] for step in steps if step in _CONVERTED}


def _batch_of(single: str) -> str:
    return single.rpartition("p")[0]


def _has(program: AnyProgram, operations: frozenset[str]) -> bool:
    return operations <= set(program.operations)


def deadline(budget_s: float) -> Callable[[], bool]:
    """Return a function that says whether the time is up."""
    end = time.monotonic() + budget_s
    return lambda: time.monotonic() > end
