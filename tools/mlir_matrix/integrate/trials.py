"""Build commits with patches, and run the tests of suites there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.digest import digest_value
from mlir_matrix.base.errors import InfrastructureError, UsageError
from mlir_matrix.base.events import Listener
from mlir_matrix.base.files import write_file
from mlir_matrix.base.text import counted
from mlir_matrix.bisect.commit_releases import CommitSource, built_environment, with_commits
from mlir_matrix.environments.fetch.artifacts import Artifacts
from mlir_matrix.environments.installer import install_all
from mlir_matrix.environments.session import Session
from mlir_matrix.environments.source.build import failure_note
from mlir_matrix.environments.source.command_lines import Places
from mlir_matrix.environments.source.store import BuildStore, push
from mlir_matrix.expand.costs import CostResolver, with_costs
from mlir_matrix.expand.expansion import Test
from mlir_matrix.golden.costs import CellCosts, compare_costs
from mlir_matrix.integrate.carried import Patch
from mlir_matrix.integrate.coupled import CoupledPins, CoupledRelease
from mlir_matrix.integrate.patched_trees import AppliedPatches, LeftOut, PatchedTrees
from mlir_matrix.integrate.walk import LateError, Probed
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import plan_tests, select_tests
from mlir_matrix.results.repeats import with_repeats, without_copy
from mlir_matrix.results.results import TestResult, raise_infrastructure_error
from mlir_matrix.results.run_plan import run_plan
from mlir_matrix.results.signature import behaviour
from mlir_matrix.toolchain.roll import with_pins

#: How often a broken test is executed again, and of how many tests: more do not fail at once by chance.
_REPEATS = 2
_MOST_REPEATED = 16


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What a commit with patches shows."""

    applied: AppliedPatches
    #: The release that it is, and the folder of what was built.
    release: str
    prefix: Path
    #: The releases of other components that go with it.
    pins: Mapping[str, CoupledRelease] = field(default_factory=dict)
    unbuildable: str = ""
    #: Results that are not as expected, by test; not those of flaky tests.
    broken: Mapping[str, TestResult] = field(default_factory=dict)
    #: Tests that are expected to fail and pass.
    fixed: Mapping[str, TestResult] = field(default_factory=dict)
    #: Tests that were not as expected, and were when they were executed again.
    flaky: tuple[str, ...] = ()
    #: How many tests ran.
    ran: int = 0

    def results_of(self, tests: Iterable[str]) -> list[TestResult]:
        """Return the results of those of these tests that are broken."""
        return [self.broken[test] for test in tests if test in self.broken]


@dataclass(kw_only=True)
class Trials:
    """Builds and tests; nothing is built or tested twice."""

    session: Session
    source: CommitSource
    trees: PatchedTrees
    #: Suites, globs and identifiers.
    names: Sequence[str]
    limits: Limits
    listener: Listener
    #: Says what is tried.
    tell: Callable[[str], object]
    #: Returns True if the time is over. The first commit is built even then.
    is_late: Callable[[], bool]
    #: Where builds are taken from, and kept if it is a folder.
    store: BuildStore | None = None
    #: By commit, and the digest of the patches' texts: the same bytes are one build.
    tried: dict[tuple[str, str], Tried] = field(default_factory=dict)
    #: The tests that can run at the first commit that is tried.
    selected: frozenset[str] | None = None
    #: The keys of what was built, also by other trials of the walk.
    built: set[tuple[str, str]] = field(default_factory=set)
    #: Tests that failed by chance, with the commits where they did.
    flaky: dict[str, str] = field(default_factory=dict)

    def at(self, commit: str, patches: Sequence[Patch]) -> Tried:
        """Return what a commit with patches shows.

        Raise LateError if it is not known and the time is over, InfrastructureError, and interruptions of a run.
        """
        applied = self.trees.apply(commit, patches)
        key = (commit, _digest(applied.patches))
        known = self.tried.get(key)
        if known is None:
            if self.built and self.is_late():
                raise LateError
            known = self.tried[key] = self._try(commit, applied)
            self.built.add(key)
            self.flaky |= dict.fromkeys(known.flaky, commit)
        return replace(known, applied=applied)

    def costs_at(self, commit: str, patches: Sequence[Patch]) -> list[CellCosts]:
        """Run the tests that have golden costs at a commit with patches; return the costs that differ from their goldens.

        Raise as :meth:`at` does.
        """
        applied = self.at(commit, patches).applied
        session, _, _ = self.session_at(commit, applied.patches)
        goldens = CostResolver(session.catalog)
        tests = [test for test in select_tests(session, self.names) if goldens.of(test)]
        self.tell(f"golden costs of {counted(len(tests), 'test')}")
        plan = plan_tests(session, with_costs(tests))
        cells, _ = compare_costs(session.catalog, plan.tests, self._results(session, plan))
        return [cell for cell in cells if cell.state == "different"]

    def trial_at(
        self, commit: str, first: Sequence[Patch] = ()
    ) -> Callable[[Sequence[Patch]], tuple[Probed, Mapping[str, LeftOut]]]:
        """Return a function that tries other patches at a commit, after those that come first."""

        def trial(patches: Sequence[Patch]) -> tuple[Probed, Mapping[str, LeftOut]]:
            tried = self.at(commit, [*first, *patches])
            return probed(tried), tried.applied.left_out

        return trial

    def build(self, commit: str, patches: Sequence[Patch]) -> bool:
        """Build a commit with patches, and run nothing; return whether it can be built. Raise InfrastructureError."""
        tried, _ = self._build(commit, self.trees.apply(commit, patches))
        return not tried.unbuildable

    def _try(self, commit: str, applied: AppliedPatches) -> Tried:
        tried, session = self._build(commit, applied)
        if tried.unbuildable:
            return tried
        return self._run(session, select_tests(session, self.names), tried)

    def _build(self, commit: str, applied: AppliedPatches) -> tuple[Tried, Session]:
        """Build a commit with patches; return what is known of it, and the session in which it is pinned."""
        try:
            session, release, pins = self.session_at(commit, applied.patches)
        except UsageError as error:
            return Tried(applied=applied, release="", prefix=Path(), unbuildable=str(error)), self.session
        environment, build = built_environment(session, self.source.component, release)
        prefix = session.home.packages / build.folder
        tried = Tried(applied=applied, release=release, prefix=prefix, pins=pins)
        patched = f" with {len(applied.patches)} patches" if applied.patches else ""
        self.tell(f"{self.source.component} {commit[:12]}{patched}")
        if self.store is not None and build.folder in self.store.builds():
            self.store.pull(build.folder, session.home.packages)
        errors = install_all([environment], session.home.packages, Artifacts(session.home.artifacts), self.listener)
        if errors:
            places = Places(session.home.packages, session.home.cache, build)
            note = failure_note(places)
            if not note.is_file():
                raise InfrastructureError("; ".join(errors.values()))
            failed = note.read_text(encoding="utf-8", errors="replace").removeprefix(f"{build.label} ")
            # Without folders of this machine, the message itself is visible where it is shortened.
            folders = f"{re.escape(str(places.source))}/|{re.escape(str(session.home.packages))}/[^/ ]+/"
            failed = re.sub(folders, "", failed)
            return replace(tried, unbuildable=failed), session
        if self.store is not None and self.store.folder is not None:
            push(prefix, self.store.folder)
        return tried, session

    def session_at(self, commit: str, patches: Sequence[Patch]) -> tuple[Session, str, dict[str, CoupledRelease]]:
        """Return the session in which a commit with patches is pinned, its release, and those that go with it.

        Raise UsageError if the commit names others that are unknown.
        """
        update = {"patches": str(self._write(patches)) if patches else None}
        source = replace(self.source, build=self.source.build.model_copy(update=update))
        session, (release,) = with_commits(self.session, source, self.trees.repository, [commit])
        session, pins = CoupledPins(self.trees.repository, source).with_pins_of(session, commit)
        others = {component: each.release for component, each in pins.items()}
        return with_pins(session, {self.source.component: release, **others}), release, pins

    def _write(self, patches: Sequence[Patch]) -> Path:
        """Write patches into a folder of the cache that their bytes name; return it."""
        names = [f"{number:04}.patch" for number, _ in enumerate(patches, 1)]
        folder = self.session.home.cache / "builds" / "patches" / _digest(patches)
        for name, patch in zip(names, patches, strict=True):
            write_file(folder / name, patch.diff)
        return folder

    def _run(self, session: Session, tests: Sequence[Test], tried: Tried) -> Tried:
        plan = plan_tests(session, tests)
        results = self._results(session, plan)
        wrong = {name: each for name, each in results.items() if not each.expected}
        broken = {name: each for name, each in wrong.items() if each.outcome != Outcome.PASS}
        if self.selected is None:
            self.selected = frozenset(test.id for test in tests if test.selected)
        lost = {test.id: test for test in tests if test.id in self.selected and test.outcome}
        broken |= {name: _unsupported(test) for name, test in lost.items()}
        flaky = self._flaky(session, plan, wrong.keys() - lost.keys())
        sure = {name: each for name, each in broken.items() if name not in flaky}
        fixed = {name: each for name, each in wrong.items() if name not in broken and name not in flaky}
        return replace(tried, broken=sure, fixed=fixed, flaky=tuple(flaky), ran=len(plan.verdicts))

    def _flaky(self, session: Session, plan: PlannedTests, wrong: set[str]) -> list[str]:
        """Return the tests that are not as expected, but are when they are executed again."""
        if not 0 < len(wrong) <= _MOST_REPEATED:
            return []
        again = with_repeats(plan, (), dict.fromkeys(wrong, _REPEATS))
        results = self._results(session, again)
        passed = Counter(without_copy(name) for name, each in results.items() if each.expected)
        return [name for name in sorted(wrong) if passed[name]]

    def _results(self, session: Session, plan: PlannedTests) -> dict[str, TestResult]:
        run = run_plan(session, plan, limits=self.limits, fail_fast=False, listener=self.listener)
        run.raise_interruption()
        raise_infrastructure_error(run.results)
        return {result.id: result for result in run.results}


def _digest(patches: Sequence[Patch]) -> str:
    """Return a digest of what patches change. Their messages and names do not change what is built."""
    return digest_value([patch.diff.hex() for patch in patches])[:32]


def probed(tried: Tried) -> Probed:
    """Return what a trial shows, as the walk compares it."""
    broken = {name: str(behaviour(result)) for name, result in tried.broken.items()}
    return Probed(unbuildable=tried.unbuildable, broken=broken)


def _unsupported(test: Test) -> TestResult:
    """Return the result of a test that could run at the start, and cannot run here."""
    return TestResult(
        id=test.id, framework=test.framework, pipeline=test.pipeline, target=test.target, workload=test.workload,
        outcome=Outcome.UNSUPPORTED, stage="", expected=False, reason=test.reason,
    )  # fmt: skip
