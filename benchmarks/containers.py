"""A cold run of smoke in containers against one on this machine, and what a container adds to an action.

    benchmarks/run containers

Cold: packages, images and the C library are there, the action cache is empty. It needs a container daemon (``DOCKER_HOST``).
The overhead of an action is the time from when it is sent to a worker until its outputs are in the cache, without what the
worker itself says that it took; one action at a time, without the first one of each environment, which starts a container.

Found on two cores, nothing else running, medians of 3: local 50.0 s, Docker 49.3 s; 0.9 and 1.9 ms an action.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from _matrix import matrix
from _timing import verdict
from cold import once, smoke, template

from mlir_matrix.base.events import Event
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.job import ActionDone, ActionStarted
from mlir_matrix.expand.select import choose
from mlir_matrix.plan.request import ExecutorOptions, Limits
from mlir_matrix.plan.session import open_session, plan_tests
from mlir_matrix.results.run_plan import run_plan

RUNS = 3
EXECUTORS = ("local", "docker")
FEW = "mlir/linalg-loops/x86_64/*"


class Watch:
    """When each action was sent, and how long it took."""

    def __init__(self) -> None:
        self.sent: dict[str, float] = {}
        self.took: dict[str, float] = {}

    def on(self, event: Event) -> None:
        """Note the time of an event."""
        match event:
            case ActionStarted(action):
                self.sent[action.id] = time.perf_counter()
            case ActionDone(action) if action.id in self.sent:
                self.took[action.id] = time.perf_counter() - self.sent[action.id]


def overhead(session: Session, executor: str) -> float:
    """Seconds that executing an action takes beside the action itself: the median."""
    plan = plan_tests(session, choose(session.catalog, (FEW,)).tests())
    watch = Watch()
    options = ExecutorOptions(executor=executor)
    run = run_plan(session, plan, options=options, limits=Limits(jobs=1), fail_fast=False, listener=watch.on)
    firsts: dict[str, str] = {}
    for name in watch.sent:
        firsts.setdefault(plan.graph.actions[name].environment, name)
    executed = set(watch.took) - set(firsts.values())
    return statistics.median(watch.took[name] - run.done[name].result.usage["wall_s"] for name in executed)


def main() -> int:
    """Print the ratios; exit code 1 where one does not hold."""
    for executor in EXECUTORS:
        matrix("run", "smoke", "--quiet", "--executor", executor)  # makes what is missing
    session = open_session()
    plan = smoke(session)
    seconds: dict[str, list[float]] = {executor: [] for executor in EXECUTORS}
    added: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=session.home.cache) as name:
        folder = Path(name)
        for executor in EXECUTORS:
            template(session, plan, folder / executor, sealed=executor != "local")
            shutil.copytree(folder / executor, folder / f"few-{executor}")
            added[executor] = overhead(open_session(cache_dir=folder / f"few-{executor}"), executor)
        # Turns, so that a slow moment of the machine meets both sides. Caches are left: removing many files slows some disks.
        for number in range(RUNS):
            for executor in EXECUTORS:
                cache = folder / f"{executor}-{number}"
                shutil.copytree(folder / executor, cache)
                seconds[executor].append(once(cache, "smoke", "--executor", executor)[0])
    medians = {executor: statistics.median(each) for executor, each in seconds.items()}
    print(f"     cold run: local {medians['local']:.1f} s, docker {medians['docker']:.1f} s; medians of {RUNS} runs")
    print(f"     overhead of an action: local {1e3 * added['local']:.1f} ms, docker {1e3 * added['docker']:.1f} ms")
    holds = [
        verdict("cold run, docker / local", medians["docker"] / medians["local"], 1.5, at_most=True),
        verdict("overhead of an action in a container, ms", 1e3 * added["docker"], 60, at_most=True),
    ]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    if not os.environ.get("DOCKER_HOST") and not Path("/var/run/docker.sock").exists():
        sys.exit("no container daemon: say in DOCKER_HOST where one listens")
    sys.exit(main())
