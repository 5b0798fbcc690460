"""A cold run of smoke against one process per test doing the same work, and what our own bookkeeping takes of it.

    benchmarks/run cold

Cold: the environments' packages are there, the action cache is empty. The C library of the target, which Zig builds once
per machine, counts as part of the environment for the ratio, because the baseline is given it too; a run that has to
build it is printed beside it. The baseline runs a random sample of each framework's tests, as many at a time as there are
cores, and is extrapolated to all of them.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from _baseline import Baseline, cores, strata
from _matrix import Report, matrix, observed
from _timing import verdict

from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache, Result
from mlir_matrix.execute.keys import action_key
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.expand.select import choose
from mlir_matrix.plan.graph import BUILDING, Graph
from mlir_matrix.plan.planner import PlannedTests
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import open_session, plan_tests

RUNS = 3
SAMPLE = 12


def smoke(session: Session) -> PlannedTests:
    """The plan of the suite."""
    return plan_tests(session, choose(session.catalog, ("smoke",)).tests())


def kit(session: Session, plan: PlannedTests) -> dict[str, Path]:
    """The driver and the C library, from the user's own cache, which has them after its first run."""
    graph = Graph({name: action for name, action in plan.graph.actions.items() if action.tool in BUILDING})
    store = ActionCache(session.home.actions)
    made = run_graph(session, graph, limits=Limits(jobs=1))
    return {
        output: Path(store.blob_path(digest))
        for done in made.values()
        for output, digest in done.result.outputs.items()
    }


def template(session: Session, plan: PlannedTests, folder: Path, *, sealed: bool = False) -> None:
    """A cache that has nothing but the C library; ``sealed``: for an executor that uses nothing of this machine."""
    action = next(each for each in plan.graph.actions.values() if each.tool in BUILDING and not each.inputs)
    environment = session.environment(action.environment, sealed=sealed)
    assert isinstance(environment, ResolvedEnvironment)
    key = action_key(action, (), environment=environment.digest)
    ours, new = ActionCache(session.home.actions), ActionCache(folder)
    new.prepare()
    result = ours.find(key)
    assert result is not None
    for digest in result.outputs.values():
        shutil.copyfile(ours.blob_path(digest), new.blob_path(digest))
    new.keep(key, result)


def kit_template(session: Session, suite: str, folder: Path) -> None:
    """A cache that has nothing but the C library that the tests of a suite are linked with."""
    plan = plan_tests(session, choose(session.catalog, (suite,)).tests())
    kit(session, plan)
    template(session, plan, folder)


def added(cache: Path, before: frozenset[str]) -> Iterator[Result]:
    """The results that a run added to a cache."""
    store = ActionCache(cache)
    for file in Path(store.results).glob("??/*"):
        if file.name not in before and (result := store.find(file.name)) is not None:
            yield result


def results(cache: Path) -> frozenset[str]:
    return frozenset(file.name for file in Path(ActionCache(cache).results).glob("??/*"))


def once(cache: Path, suite: str = "smoke", *options: str) -> tuple[float, Report]:
    """Wall time of a run into a cache, and its report; what it came to must be what the suite expects."""
    begin = time.perf_counter()
    report = observed(suite, "--cache-dir", str(cache), *options)
    seconds = time.perf_counter() - begin
    summary = report.document["summary"]
    if summary["as_expected"] != summary["total"]:
        raise SystemExit(f"not as expected, so not worth measuring: {summary}")
    return seconds, report


def cold(prepared: Path, cache: Path) -> tuple[float, float, float, float, int]:
    """One cold run: wall, and CPU seconds of our process, of actions, of the rest (workers' imports); executed.

    The cache is left: where many files were just removed, some file systems are slow for a while.
    """
    shutil.copytree(prepared, cache)
    before = results(cache)
    wall, report = once(cache)
    actions = sum(usage["user_s"] + usage["sys_s"] for usage in (result.usage for result in added(cache, before)))
    return wall, report.own_s, actions, report.others_s - actions, report.document["executed"]


def main() -> int:
    """Print the ratios; exit code 1 where one does not hold."""
    matrix("run", "smoke", "--quiet")  # installs what is missing, and builds the C library
    session = open_session()
    plan = smoke(session)
    tests = [test for test in plan.tests if test.id in plan.verdicts]
    rows: list[tuple[float, float, float, float, int]] = []
    spent: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=session.home.cache) as name:
        folder = Path(name)
        template(session, plan, folder / "template")
        baselines = [Baseline(session, plan, kit(session, plan), folder / f"baseline-{run}") for run in range(RUNS)]
        # Turns, so that a slow moment of the machine meets both sides.
        for run in range(RUNS):
            rows.append(cold(folder / "template", folder / f"cache-{run}"))
            for group, (sample, number) in strata(tests, SAMPLE, run).items():
                seconds = baselines[run].seconds(sample, cores())
                spent.setdefault(group, []).append(seconds / len(sample) * number)
        whole, _ = once(folder / "empty")
    return report(tests_run=len(tests), rows=rows, spent=spent, whole=whole)


def report(
    *, tests_run: int, rows: list[tuple[float, float, float, float, int]], spent: dict[str, list[float]], whole: float
) -> int:
    """Print what was measured and the ratios."""
    wall, own, actions, workers = (statistics.median(row[column] for row in rows) for column in range(4))
    print(f"     {tests_run} tests, {rows[0][4]} actions, {cores()} at a time; medians of {RUNS} runs")
    print(f"     cold run: {wall:.1f} s (with the C library to be built: {whole:.1f} s, one run)")
    for group, seconds in spent.items():
        print(f"     one process per test, {group}: {statistics.median(seconds):.1f} s (samples of {SAMPLE})")
    theirs = sum(statistics.median(seconds) for seconds in spent.values())
    print(f"     one process per test, all: {theirs:.1f} s, extrapolated")
    print(f"     CPU: actions {actions:.1f} s, workers' imports and forks {workers:.1f} s, matrix itself {own:.2f} s")
    share = statistics.median(row[1] / (row[1] + row[2] + row[3]) for row in rows)
    holds = [
        verdict("one process per test / cold run", theirs / wall, 5, at_most=False),
        verdict("bookkeeping, % of the cold run's CPU time", 100 * share, 5, at_most=True),
    ]
    print(f"     bookkeeping, % of the cold run's wall time on all cores: {100 * own / (wall * cores()):.2f}")
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
