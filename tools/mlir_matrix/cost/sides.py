"""Run the tests of one side of a comparison, and find what their programs are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlir_matrix.actions.contract import Role
from mlir_matrix.actions.outcomes import Outcome
from mlir_matrix.base.digest import digest_file, digest_value
from mlir_matrix.base.names import split_pins, with_pins
from mlir_matrix.cost.sampling import Timed
from mlir_matrix.cost.work import Work, work_of
from mlir_matrix.environments.machine import HOST, x86_level
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.expand.costs import CostResolver, with_costs
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import granted, whole_catalog
from mlir_matrix.plan.costs import PlannedCosts
from mlir_matrix.plan.graph import File, Input, Produced
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.request import LOCAL, Limits
from mlir_matrix.plan.run_kernels import BENCH, JIT
from mlir_matrix.plan.session import plan_tests
from mlir_matrix.results.documents import Costs, TestEntry
from mlir_matrix.results.results import NOT_RUN, Run, TestResult
from mlir_matrix.results.run_plan import run_all

_ARGUMENT = Role.ARGUMENT.of("")


@dataclass(frozen=True, kw_only=True)
class SideTest:
    """A test of one side: how it ended, what it costs, and its program."""

    id: str
    outcome: Outcome
    reason: str
    costs: Costs | None
    #: The digest of what the target runs, and of what runs it and how: equal ones cost the same. Empty for recorded results.
    program: str = ""
    #: How to time it, or why it cannot be timed.
    timed: Timed | str = "recorded results have no program to time"

    @classmethod
    def recorded(cls, entry: TestEntry) -> SideTest:
        """Return a test from the results of an earlier run."""
        return cls(id=entry["id"], outcome=entry["outcome"], reason=entry["reason"], costs=entry.get("costs"))


@dataclass(frozen=True, kw_only=True)
class CostSide:
    """Tests that ran in one session, with their costs."""

    session: Session
    plan: PlannedTests
    run: Run
    results: dict[str, TestResult]
    tests: dict[str, Test]
    #: How much costs may be worse.
    bounds: CostResolver

    def ran(self) -> list[SideTest]:
        """Return the tests that ran."""
        return [self._tested(result) for result in self.run.results if result.outcome not in NOT_RUN]

    def tested(self, test: str) -> SideTest | None:
        """Return a test that ran; None for one that did not."""
        result = self.results.get(test)
        return None if result is None or result.outcome in NOT_RUN else self._tested(result)

    def _tested(self, result: TestResult) -> SideTest:
        found = SideTest(id=result.id, outcome=result.outcome, reason=result.reason, costs=result.costs)
        planned = self.plan.costs.get(result.id)
        if planned is None or result.outcome != Outcome.PASS:
            return replace(found, timed="it has no program that passes")
        found = replace(found, program=self._program(self.tests[result.id], planned))
        program = planned.timed
        if isinstance(program, str):
            return replace(found, timed=program)
        made = [ref.action for ref in program.inputs.values() if isinstance(ref, Produced)]
        if not all(name in self.run.done and self.run.done[name].result.ok for name in made):
            return replace(found, timed="its program was not linked with what measures times")
        timed = Timed(
            tool=program.tool,
            environment=self._named(program.environment),
            params=program.params,
            files={name: self._file(ref) for name, ref in program.inputs.items()},
            outputs=program.outputs,
        )
        return replace(found, timed=timed)

    def _program(self, test: Test, planned: PlannedCosts) -> str:
        """Return the digest of what a target runs, and of what runs it and how, but for the values of its arguments."""
        runner = test.known_route.runner
        settings: list[object] = [self._digest(planned.artifact), runner.tool, self._named(runner.environment)]
        if runner.tool == JIT:
            settings.append({**self.session.catalog.pipelines[test.pipeline].document.codegen})
        if not isinstance(planned.timed, str) and planned.timed.tool != BENCH:
            own = {name: ref for name, ref in planned.timed.inputs.items() if not name.startswith(_ARGUMENT)}
            settings += [planned.timed.params, {name: self._digest(ref) for name, ref in own.items()}]
        return digest_value(settings)

    def counted(self, tests: Collection[str], limits: Limits, *, quiet: bool) -> CostSide:
        """Count the costs of some of the tests, and return the side with them. Raise the interruption of the run, if any."""
        if not tests:
            return self
        run = run_all(self.session, self.plan.only(self.tests[test] for test in tests), LOCAL, limits, quiet=quiet)
        run.done |= {name: done for name, done in self.run.done.items() if name not in run.done}
        run.results = [*run.results, *(each for each in self.run.results if each.id not in tests)]
        order = {test: number for number, test in enumerate(self.tests)}
        run.results.sort(key=lambda result: order[result.id])
        return replace(self, run=run, results={result.id: result for result in run.results})

    def work(self, test: str) -> Work:
        """Return what a call of a test that passed has to do at least."""
        workload = self.session.catalog.workloads[self.tests[test].workload].document
        ref = self.plan.costs[test].linalg
        text = self._file(ref).read_text(encoding="utf-8") if ref else ""
        return work_of(workload, text)

    def _file(self, ref: Input) -> Path:
        if isinstance(ref, File):
            return self.session.catalog.roots[ref.root] / ref.path
        return Path(ActionCache(self.session.home.actions).blob_path(self._digest(ref)))

    def _digest(self, ref: Input) -> str:
        if isinstance(ref, File):
            return digest_file(self._file(ref))
        return self.run.done[ref.action].result.outputs[ref.output]

    def _named(self, environment: str) -> str:
        """Return an environment with the pins that this session gives it, so that another session finds the same."""
        name, pins = split_pins(environment)
        releases = self.session.pins.override(pins).releases(name)
        known = self.session.catalog.default_pins(name)
        changed = [f"{each}={release.release}" for each, release in releases.items() if release.release != known[each]]
        return with_pins(name, ",".join(changed))


def tests_named(session: Session, names: Sequence[str]) -> list[Test]:
    """Return the tests with these identifiers that a session has, also those that cannot run there."""
    expansion = whole_catalog(session.catalog, names, pins=session.pins)
    known = filter(None, map(expansion.test, names))
    return list(granted(session.catalog, known, (), x86_level, HOST.name))


def run_side(
    session: Session, tests: Sequence[Test], limits: Limits, *, quiet: bool, counting: bool = True
) -> CostSide:
    """Run tests with all of their exact costs. Without ``counting`` only run them to their verdicts; what :meth:`CostSide.counted`
    counts then are costs that can be better or worse. Raise the interruption of the run, if any.
    """
    plan = plan_tests(session, with_costs(tests, detailed=counting))
    executed = plan if counting else replace(plan, costs={}).only(plan.tests)
    run = run_all(session, executed, LOCAL, limits, quiet=quiet)
    return CostSide(
        session=session,
        plan=plan,
        run=run,
        results={result.id: result for result in run.results},
        tests={test.id: test for test in plan.tests},
        bounds=CostResolver(session.catalog),
    )
