"""Shards of all suites, by recorded seconds: how much their times differ, and what selecting by a machine costs.

python benchmarks/_start.py benchmarks/fleet.py [--durations FILE] [--runs N]

Without FILE (``matrix history export``), each test has seconds as tests do: most take little, a few take long; by the digest of its
name, so that every run has the same. The times of shards are sums of the seconds of their tests.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from functools import partial
from pathlib import Path

from _synthetic import catalog
from _timing import medians, verdict

from mlir_matrix.base.paths import find_home
from mlir_matrix.catalog.catalog import Catalog, Entry
from mlir_matrix.catalog.models.machines import Machine
from mlir_matrix.catalog.yaml_reader import parse
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.expand.select import choose
from mlir_matrix.fleet.choose import choose_for, timed_actions
from mlir_matrix.fleet.durations import Estimates, Recorded, Snapshot, read_snapshot
from mlir_matrix.fleet.shards import shards
from mlir_matrix.plan.session import open_session, plan_tests, session_of

TIME = "2026-01-31T12:00:00.000Z"
MACHINE = """\
description: d
has: {cpu: {architecture: x86_64}, cores: 4, memory-gib: 8}
wants:
  prefer: ["framework-001/**"]
  leave-out: [{match: ["*/pipeline-001/**"], reason: r}]
  budget-minutes: 100
"""


def tests_of(found: Catalog) -> list[Test]:
    return list(choose(found, list(found.suites)).tests())


def recorded(tests: list[Test]) -> Snapshot:
    """Seconds of a log-normal distribution, whose longest are some hundred times the median."""
    return Snapshot({test.id: Recorded(random.Random(test.id).lognormvariate(0, 1.5), TIME) for test in tests})


def balance(current: Session, file: Path | None) -> bool:
    """Three shards of all suites must differ by at most a tenth."""
    tests = tests_of(current.catalog)
    history = read_snapshot(file) if file else recorded(tests)
    cost = Estimates(history).seconds
    holds = True
    for count, bound in ((3, 0.1), (16, 0.1)):
        for name, seconds in (("by hash", None), ("by durations", cost)):
            parts = shards(tests, count, seconds)
            loads = [sum(cost(test) for test in part if test.selected) for part in parts]
            imports = sum(len({(t.framework, t.workload, t.pins) for t in part if t.selected}) for part in parts)
            print(f"     {count} shards {name}: {min(loads):.1f} to {max(loads):.1f} s, {imports} imports")
        holds = (
            verdict(f"{count} shards: (longest - shortest) / longest", 1 - min(loads) / max(loads), bound, at_most=True)
            and holds
        )
    return holds


def selecting(folder: Path, runs: int) -> bool:
    """Choosing among 100,000 tests plans them, and must take little more."""
    found = catalog(folder, 10, 20, 10, 50)
    tests, session = tests_of(found), session_of([folder], find_home())
    history, source = recorded(tests), parse(MACHINE, "box.yaml")
    box = Entry(name="box", document=Machine.model_validate(source.data), source=source, root=folder, folder=folder)

    def pick() -> None:
        actions = partial(timed_actions, plan_tests(session, tests))
        choose_for(box, tests, catalog=found, pins=session.pins, history=history, date=TIME, actions=actions)

    times = medians({"choose": pick, "plan": partial(plan_tests, session, tests)}, runs)
    print(f"     {len(tests):,} tests: choose {times['choose']:.2f} s, plan {times['plan']:.2f} s")
    return verdict("choose / plan", times["choose"] / times["plan"], 2.5, at_most=True)


def main() -> int:
    """Print the numbers; exit code 1 where one does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--durations", type=Path, help="recorded seconds of tests")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each contender")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        results = [balance(open_session(), arguments.durations), selecting(Path(name) / "catalog", arguments.runs)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
