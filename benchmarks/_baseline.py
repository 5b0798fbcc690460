"""Runs tests one process each, as a script without a graph, a cache or warm workers would."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.keys import input_names, request
from mlir_matrix.expand.expansion import Test
from mlir_matrix.plan.graph import BUILDING, PlannedAction, Produced
from mlir_matrix.plan.planner import PlannedTests

HERE = Path(__file__).resolve().parent
_SCRIPT = str(HERE / "_one_process.py")
_TOOLS = str(HERE.parent / "tools")
#: Bindings packages that cannot be in one process with those of the compiler: such an import is a process of its own.
_APART = frozenset({"jax"})


class Baseline:
    """Tests of a plan as processes. ``kit`` has the driver and the C library ready, by output: they are given."""

    def __init__(self, session: Session, plan: PlannedTests, kit: Mapping[str, Path], folder: Path) -> None:
        self._session = session
        self._plan = plan
        self._kit = kit
        self._folder = folder
        self._environments = session.environments(action.environment for action in plan.graph.actions.values())

    def seconds(self, tests: Sequence[Test], jobs: int) -> float:
        """Wall time of these tests, ``jobs`` at a time."""
        begin = time.perf_counter()
        with ThreadPoolExecutor(jobs) as pool:
            outcomes = list(pool.map(self.run, tests))
        seconds = time.perf_counter() - begin
        for test, outcome in zip(tests, outcomes, strict=True):
            if outcome != _last_outcome(test):
                raise SystemExit(f"the baseline does not do the same work: {test.id} came to {outcome}")
        return seconds

    def run(self, test: Test) -> str:
        """Run one test and return its last action's outcome."""
        folder = self._folder / f"{test.id.replace('/', '+')}-{time.monotonic_ns()}"
        outcome = ""
        for number, actions in enumerate(self._processes(test)):
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"{number}.json"
            file.write_text(json.dumps([[self._described(action, folder) for action in actions]]), encoding="utf-8")
            (done,) = self._call(actions, file)
            outcome = str(done["outcome"])
            if outcome != "ok":
                break
        return outcome

    def together(self, tests: Sequence[Test]) -> list[dict[str, Any]]:
        """Run tests one after the other in one process; return for each the last action's outcome and ``cpu_s``."""
        chains, actions = [], list[PlannedAction]()
        for test in tests:
            folder = self._folder / f"{test.id.replace('/', '+')}-{time.monotonic_ns()}"
            (own,) = self._processes(test)
            chains.append([self._described(action, folder) for action in own])
            actions += own
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / "together.json"
        file.write_text(json.dumps(chains), encoding="utf-8")
        return self._call(actions, file)

    def _processes(self, test: Test) -> Iterator[list[PlannedAction]]:
        """The test's actions, in as few processes as can be: one, but for frameworks that must be apart."""
        graph = self._plan.graph
        actions = [graph.actions[name] for name in graph.needed_by(self._plan.verdicts[test.id])]
        actions = [action for action in actions if action.tool not in BUILDING]
        apart = [action for action in actions if action.environment in _APART]
        if apart:
            yield apart
        yield [action for action in actions if action.environment not in _APART]

    def _described(self, action: PlannedAction, folder: Path) -> dict[str, Any]:
        names = input_names(action, self._plan.graph)
        copies = []
        for name, ref in action.inputs.items():
            if not isinstance(ref, Produced):
                copies.append((str(self._session.catalog.roots[ref.root] / ref.path), names[name]))
            elif self._plan.graph.actions[ref.action].tool in BUILDING:
                copies.append((str(self._kit[ref.output]), names[name]))
            else:
                source = folder / _plain(ref.action) / "out" / self._plan.graph.actions[ref.action].outputs[ref.output]
                copies.append((str(source), names[name]))
        return {"folder": str(folder / _plain(action.id)), "request": request(action, names), "copies": copies}

    def _call(self, actions: Sequence[PlannedAction], file: Path) -> list[dict[str, Any]]:
        environments = [self._environments[action.environment] for action in actions]
        resolved = [found for found in environments if isinstance(found, ResolvedEnvironment)]
        packages = self._session.home.packages
        sites = dict.fromkeys(site for found in resolved for site in found.sites(packages))
        prefixes = {
            str(packages / unit.folder_for(found.interpreter.tag)): unit.release
            for found in resolved
            for unit in found.prefixes
        }
        # The process runs on the interpreter of the largest environment; they are the same but on odd machines.
        python = max(resolved, key=lambda found: len(found.packages)).interpreter.path
        command = [python, "-P", "-s", "-S", "-X", f"pycache_prefix={self._session.home.bytecode}", _SCRIPT, _TOOLS]
        done = subprocess.run(
            [*command, str(file), json.dumps(prefixes), *sites],
            env={"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise SystemExit(f"the baseline cannot run {actions[-1].id}:\n{done.stderr[-2000:]}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]


def _last_outcome(test: Test) -> str:
    """What the last action of a test says where all is as expected: a judge that finds a mismatch has done its work."""
    expected = test.expectation.outcome if test.expectation else "pass"
    return "ok" if expected in ("pass", "mismatch") else expected


def _plain(identifier: str) -> str:
    return identifier.replace("/", "+")


def strata(tests: Sequence[Test], each: int, seed: int) -> dict[str, tuple[list[Test], int]]:
    """A random sample for each framework (and for IR tests), and how many tests it stands for."""
    groups: dict[str, list[Test]] = defaultdict(list)
    for test in tests:
        groups["IR tests" if test.is_ir else test.framework].append(test)
    draw = random.Random(seed)
    return {name: (draw.sample(group, min(each, len(group))), len(group)) for name, group in sorted(groups.items())}


def cores() -> int:
    """How many cores this process may use: that many tests run at a time, on both sides."""
    return len(os.sched_getaffinity(0))


if __name__ == "__main__":
    sys.exit("this is a part of benchmarks/cold.py")
