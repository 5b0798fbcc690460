"""``matrix cost``: that counts repeat to the unit, and what a comparison costs beside the runs that it needs.

    benchmarks/run cost

Counts are made again ten times, on each core in turn, on the machine as it is and with all cores busy. Then the suite smoke is
compared with another pin, and with itself, both without a cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from _matrix import LAUNCHER, ROOT
from _timing import verdict

from mlir_matrix.base.digest import digest_value
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.expand.costs import with_costs
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import open_session, plan_tests, select_tests

COUNTED = ("mlir/{linalg-loops,linalg-vectorized}/x86_64-v3/{matmul,mlp,softmax,conv2d,attention}",)
TIMES = 10
OTHER = "llvm=22"
#: A comparison may take so many times as long as the runs of the suite on both sides.
MOST = 3.0


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep cores busy."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def counts(session: Session, number: int) -> dict[str, str]:
    """Count again, and return the digest of what each action counted."""
    plan = plan_tests(session, with_costs(select_tests(session, COUNTED)))
    actions = {
        name: replace(each, params_digest=digest_value([each.params_digest, number, time.time_ns()]))
        if each.tool == "count"
        else each
        for name, each in plan.graph.actions.items()
    }
    done = run_graph(session, Graph(actions), limits=Limits(jobs=2))
    return {name: done[name].result.outputs["counts"] for name, each in actions.items() if each.tool == "count"}


def repeated() -> bool:
    """Print how many kernels are counted differently; return whether none is."""
    session, cores = open_session(), sorted(os.sched_getaffinity(0))
    seen: dict[str, set[str]] = {}
    for number in range(TIMES):
        os.sched_setaffinity(0, {cores[number % len(cores)]})
        with busy(len(cores) if number >= TIMES // 2 else 0):
            for name, digest in counts(session, number).items():
                seen.setdefault(name, set()).add(digest)
    os.sched_setaffinity(0, set(cores))
    differ = [name for name, digests in seen.items() if len(digests) > 1]
    print(f"     {len(seen)} kernels counted {TIMES} times {' '.join(differ)}".rstrip())
    return bool(seen) and verdict("kernels whose counts differ", len(differ), 0, at_most=True)


def seconds(cache: Path, *arguments: str) -> tuple[float, str, str]:
    """Return how long a command takes, and what it prints."""
    begin = time.monotonic()
    done = subprocess.run(
        [LAUNCHER, *arguments, "--cache-dir", str(cache)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"matrix {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return time.monotonic() - begin, done.stdout, done.stderr


def compared() -> Sequence[bool]:
    """Compare smoke with another pin and with itself; return whether both take as long as they may."""
    with tempfile.TemporaryDirectory() as folder:
        run = seconds(Path(folder, "run"), "run", "smoke", "--quiet")[0]
        other = seconds(Path(folder, "run"), "run", "smoke", "--quiet", "--pin", OTHER)[0]
        took, text, _ = seconds(
            Path(folder, "cost"), "cost", "smoke", "--against", OTHER, "--format", "json", "--quiet"
        )
        words = json.loads(text)["summary"]["by_word"]
        print(f"     against {OTHER}: {took:.0f} s; the runs {run:.0f} s and {other:.0f} s: {words}")
        fits = verdict("a comparison beside the runs of both sides", took / (run + other), MOST, at_most=True)
        again, text, progress = seconds(Path(folder, "cost"), "cost", "smoke", "--against", "HEAD", "--format", "json")
        words = json.loads(text)["summary"]["by_word"]
        print(f"     against itself: {again:.0f} s: {words}")
        measured = progress.count("timing ")
        return [fits, verdict("programs measured that are equal", measured, 0, at_most=True)]


if __name__ == "__main__":
    sys.exit(not all([repeated(), *compared()]))
