"""The loop of ``matrix fuzz``: compose programs, run them in batches, and look at each program of a batch that fails."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlir_matrix.actions.runtime.collect import remove_folder
from mlir_matrix.base.events import Listener
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose
from mlir_matrix.fuzz.compose import Composer, Coverage
from mlir_matrix.fuzz.profiles import PROFILES, Profile
from mlir_matrix.fuzz.rounds import CORPORA, write_catalog
from mlir_matrix.fuzz.routes import write_routes
from mlir_matrix.fuzz.values import Program, merged
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests, session_of
from mlir_matrix.results.results import NOT_RUN, TestResult
from mlir_matrix.results.run_plan import run_plan

#: Programs of a batch, which are one function, and batches of a round, which are one run.
BATCH, BATCHES = 12, 12
_LENGTHS = (2, 6)
#: The step without which a route has no vectors.
LOWERS_VECTORS = "vector-lowering"
#: Composed routes of a round.
ROUTES = 3


@dataclass(frozen=True)
class Failure:
    """A program that fails on a route."""

    program: Program
    #: Its test, and how that ended, in a catalog with this program alone.
    result: TestResult
    round: int

    @property
    def source(self) -> str:
        """The file that the route begins with."""
        corpus = self.result.workload.partition(":")[0]
        return next(source for source, name in CORPORA.items() if name == corpus)


@dataclass
class Counts:
    """What a session has done."""

    programs: int = 0
    #: Programs by the routes that they were judged on.
    judged: int = 0
    rounds: int = 0
    #: The cells that programs ran in.
    routes: set[str] = field(default_factory=set)
    coverage: Coverage = field(default_factory=Coverage)


class Fuzzer:
    """Composes and runs programs until a budget is used. ``routes``: globs of cells."""

    def __init__(
        self, session: Session, routes: Sequence[str], folder: Path, seed: int, limits: Limits, listener: Listener
    ) -> None:
        self._session, self._routes, self._folder, self._seed = session, routes, folder, seed
        self._limits, self._listener = limits, listener
        self.counts = Counts()

    def failures(self, until: Callable[[], bool]) -> Iterator[Failure]:
        """Yield each program that fails, until ``until`` returns True. Raise InfrastructureError."""
        while not until():
            profile = PROFILES[self.counts.rounds % len(PROFILES)]
            composer = Composer(f"{self._seed}/{self.counts.rounds}", profile, self.counts.coverage)
            programs = composer.programs(_LENGTHS)
            batches: dict[str, list[Program]] = {
                f"r{self.counts.rounds}b{number}": [next(programs) for _ in range(BATCH)] for number in range(BATCHES)
            }
            self.counts.programs += BATCH * BATCHES
            yield from self._of_round(profile, batches)
            self.counts.rounds += 1

    def _of_round(self, profile: Profile, batches: Mapping[str, Sequence[Program]]) -> Iterator[Failure]:
        root = self._folder / "round"
        results = self.run(root, {name: merged(list(programs)) for name, programs in batches.items()}, profile)
        singles: dict[str, Program] = {}
        wanted: set[tuple[str, str]] = set()
        for result in results:
            if result.outcome in NOT_RUN:
                continue
            batch = result.workload.rpartition(":")[2]
            self.counts.judged += len(batches[batch])
            self.counts.routes.add(result.identity.cell)
            if result.outcome == "pass":
                continue
            for number, program in enumerate(batches[batch]):
                singles[f"{batch}p{number}"] = program
            wanted.add((batch, result.identity.cell))
        if not singles:
            return
        for result in self.run(self._folder / "singles", singles, profile, wanted):
            if result.outcome != "pass" and result.outcome not in NOT_RUN:
                name = result.workload.rpartition(":")[2]
                yield Failure(singles[name], result, self.counts.rounds)

    def run(
        self,
        root: Path,
        programs: Mapping[str, Program],
        profile: Profile,
        wanted: set[tuple[str, str]] | None = None,
    ) -> list[TestResult]:
        """Run programs on all routes, or on those of ``wanted``, by the batch of a program and its cell."""
        remove_folder(str(root))
        self.write(root, programs, profile.sources, self.counts.rounds)
        session = self.session_with(root)
        tests = [test for test in self._tests(session, profile) if wanted is None or _is_wanted(test, wanted)]
        run = run_plan(
            session, plan_tests(session, tests), limits=self._limits, fail_fast=False, listener=self._listener
        )
        if run.interruption is not None:
            raise run.interruption
        return run.results

    def write(self, root: Path, programs: Mapping[str, Program], sources: Sequence[str], round: int) -> None:
        """Write a catalog of programs, with the composed routes of a round."""
        write_catalog(root, programs, sources)
        write_routes(root, ROUTES, random.Random(f"{self._seed}/{round}/routes"))

    def session_with(self, root: Path) -> Session:
        """Return the session with a catalog of programs."""
        known = self._session.catalog
        # With the releases of the user's own builds.
        catalog = replace(session_of([*known.roots, root], self._session.home).catalog, components=known.components)
        return replace(self._session, catalog=catalog, pins=replace(self._session.pins, catalog=catalog))

    def _tests(self, session: Session, profile: Profile) -> list[Test]:
        corpora = ",".join(CORPORA[source] for source in profile.sources)
        globs = [f"{route}/{{{corpora}}}:*" for route in self._routes]
        chosen = [test for test in choose(session.catalog, globs, pins=session.pins).tests() if test.selected]
        if not profile.vectors:
            return chosen
        return [test for test in chosen if test.route and any(step.name == LOWERS_VECTORS for step in test.route.steps)]


def _is_wanted(test: Test, wanted: set[tuple[str, str]]) -> bool:
    batch = test.workload.rpartition(":")[2].rpartition("p")[0]
    return (batch, test.identity.cell) in wanted


def deadline(budget_s: float) -> Callable[[], bool]:
    """Return a function that says whether the time is up."""
    end = time.monotonic() + budget_s
    return lambda: time.monotonic() > end
