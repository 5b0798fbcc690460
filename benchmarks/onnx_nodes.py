"""ONNX's node tests through one pipeline: a cold run against the tools' own CPU time, and an unchanged run.

    benchmarks/run onnx_nodes

The tools' own time is what a random sample of the tests takes in one process, one after the other, with no isolation, no cache and
no worker; it is extrapolated to all, and divided by the cores. Tests that crash are not in the sample.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from _baseline import Baseline, cores
from _matrix import matrix, observed
from _timing import verdict
from cold import added, kit, template

from mlir_matrix.expand.select import choose
from mlir_matrix.plan.session import open_session, plan_tests

SUITE = "onnx-nodes"
SAMPLE = 120
UNCHANGED_S = 5.0
#: Outcomes that end the process.
_ENDS = frozenset({"crashed", "timed-out", "infra-error"})


def main() -> int:
    """Print the ratios; exit code 1 where one does not hold."""
    matrix("run", "onnx/linalg-loops/x86_64/onnx-nodes:test_abs", "--quiet")  # installs what is missing
    session = open_session()
    plan = plan_tests(session, choose(session.catalog, (SUITE,)).tests())
    with tempfile.TemporaryDirectory(dir=session.home.cache) as name:
        folder = Path(name)
        made = kit(session, plan)
        template(session, plan, folder / "cache")
        begin = time.perf_counter()
        report = observed(SUITE, "--cache-dir", str(folder / "cache"))
        cold = time.perf_counter() - begin
        begin = time.perf_counter()
        again = observed(SUITE, "--cache-dir", str(folder / "cache"))
        unchanged = time.perf_counter() - begin
        used = [result.usage for result in added(folder / "cache", frozenset())]
        actions = sum(each.get("user_s", 0.0) + each.get("sys_s", 0.0) for each in used)
        outcomes = {test["id"]: test["outcome"] for test in report.document["tests"]}
        tests = [test for test in plan.tests if outcomes[test.id] not in _ENDS]
        sample = random.Random(0).sample(tests, SAMPLE)
        done = Baseline(session, plan, made, folder / "baseline").together(sample)
    wrong = [
        test.id for test, each in zip(sample, done, strict=True)
        if (each["outcome"] == "ok") != (outcomes[test.id] in ("pass", "mismatch"))
    ]  # fmt: skip
    if wrong or again.document["executed"]:
        raise SystemExit(f"not the same work, so not worth measuring: {wrong}, {again.document['executed']} executed")
    # The first test imports the frameworks.
    own = done[0]["cpu_s"] + sum(each["cpu_s"] for each in done[1:]) / (SAMPLE - 1) * (len(tests) - 1)
    print(f"     {len(outcomes)} tests, {report.document['executed']} actions, {cores()} at a time, cold: {cold:.1f} s")
    print(f"     CPU: actions {actions:.1f} s, other parts of workers {report.others_s - actions:.1f} s, "
          f"matrix itself {report.own_s:.1f} s")  # fmt: skip
    print(f"     CPU of the tools in one process: {own:.1f} s, extrapolated from {SAMPLE} tests; "
          f"all CPU time of the cold run is {(report.own_s + report.others_s) / own:.2f} of it")  # fmt: skip
    holds = verdict("cold run / tools' own CPU time by the cores", cold * cores() / own, 1.5, at_most=True)
    return 0 if verdict("unchanged run, seconds", unchanged, UNCHANGED_S, at_most=True) and holds else 1


if __name__ == "__main__":
    sys.exit(main())
