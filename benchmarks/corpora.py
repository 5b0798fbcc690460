"""torch-mlir's end-to-end tests on three routes, cold: the CPU time of a test on a route.

    TORCH_MLIR=../torch-mlir benchmarks/run corpora

A random sample of the tests, each on all three routes, which share its preparation. The cache is empty but for the C library. CPU
time is that of all processes of the run, with those that import the frameworks once.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from _baseline import cores
from _matrix import matrix, observed
from _timing import verdict
from cold import added, kit_template, results

from mlir_matrix.plan.session import open_session

SUITE = "torch-mlir"
SAMPLE = 100
BOUND_S = 0.2


def main() -> int:
    """Print where the time goes; exit code 1 where the number does not hold."""
    checkout = os.environ.get("TORCH_MLIR")
    if not checkout:
        raise SystemExit("set TORCH_MLIR to a checkout of github.com/llvm/torch-mlir")
    data = ("--data", f"{SUITE}={checkout}")
    routes: dict[str, list[str]] = defaultdict(list)
    for test in matrix("plan", SUITE, *data, "--format", "ids").splitlines():
        routes[test.rpartition("/")[2]].append(test)
    sample = random.Random(0).sample(sorted(routes), SAMPLE)
    tests = [test for workload in sample for test in routes[workload]]
    matrix("run", tests[0], *data, "--quiet")  # installs what is missing, and builds the C library
    session = open_session()
    with tempfile.TemporaryDirectory(dir=session.home.cache) as name:
        cache = Path(name) / "cache"
        kit_template(session, "smoke", cache)
        before = results(cache)
        begin = time.perf_counter()
        report = observed(*tests, *data, "--cache-dir", str(cache))
        wall = time.perf_counter() - begin
        spent: Counter[str] = Counter()
        for result in added(cache, before):
            spent[result.outcome.get("stage", "")] += result.usage["user_s"] + result.usage["sys_s"]
    used = report.own_s + report.others_s
    print(f"     {len(tests)} tests, {report.document['executed']} actions, {cores()} at a time, cold: {wall:.1f} s")
    print(f"     CPU: {', '.join(f'{stage} {seconds:.1f} s' for stage, seconds in spent.most_common())}, "
          f"other parts of workers {report.others_s - spent.total():.1f} s, matrix itself {report.own_s:.1f} s")  # fmt: skip
    return not verdict("CPU seconds of a test on a route", used / len(tests), BOUND_S, at_most=True)


if __name__ == "__main__":
    sys.exit(main())
