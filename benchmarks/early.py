"""When verdicts come in a cold run of equal chains, and of chains of four frameworks, against the longest route first.

    benchmarks/run early

Both orders run in turns, into empty action caches that have only the C library. The old order starts all imports, then all
first steps, and so on. In the suite of four frameworks one import fails, and the start of their workers takes a quarter of so
short a run. Other programs disturb the wall time, so the orders are compared by CPU seconds over the share of slots in use.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy
from _baseline import cores
from _synthetic import write
from _timing import spent, verdict
from cold import kit_template

from mlir_matrix.base.events import Event
from mlir_matrix.execute import queues
from mlir_matrix.execute.job import ActionDone, ActionStarted
from mlir_matrix.plan.graph import Graph
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import open_session, plan_tests, select_tests
from mlir_matrix.results.results import TestDone
from mlir_matrix.results.run_plan import run_plan
from support.downstream import WORKLOAD, write_record

RUNS = 3
#: Tests of a suite, and its frameworks.
TESTS = 80
#: The share of the time after which half of the verdicts must be there, by suite.
HALF = {"equal": 0.6, "mixed": 0.75}
SUITES = {"equal": ("mlir",), "mixed": ("jax", "mlir", "onnx", "pytorch")}
FAILING = "mixed-0019"

_SOURCES = {
    "jax.py": "def workload(x):\n    return x * %s\n",
    "pytorch.py": "def workload(x):\n    return x * %s\n",
    "onnx.py": """\
from onnx import parser

MODEL = '''
<ir_version: 10, opset_import: ["": 21]>
scaled (float[4] x) => (float[4] y) {
    factor = Constant <value = float {%s}> ()
    y = Mul(x, factor)
}
'''


def workload(dims):
    return parser.parse_model(MODEL)
""",
    "linalg.mlir": """\
#id = affine_map<(i) -> (i)>
func.func @main(%%x: tensor<4xf32>) -> tensor<4xf32> {
  %%factor = arith.constant %s : f32
  %%init = tensor.empty() : tensor<4xf32>
  %%y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%%x : tensor<4xf32>) outs(%%init : tensor<4xf32>) {
  ^bb0(%%e: f32, %%out: f32):
    %%product = arith.mulf %%e, %%factor : f32
    linalg.yield %%product : f32
  } -> tensor<4xf32>
  return %%y : tensor<4xf32>
}
""",
}


def catalog(folder: Path) -> Path:
    """A catalog with a suite of equal chains and one of several frameworks; every workload has a factor of its own."""
    for suite, frameworks in SUITES.items():
        for number in range(TESTS // len(frameworks)):
            name, factor = f"{suite}-{number:04}", 1.5 + number
            home = folder / f"matrix/workloads/{name}"
            write(home / "workload.yaml", WORKLOAD)
            write(home / "reference.py", f"def reference(x):\n    return x * {factor}\n")
            for file, text in _SOURCES.items():
                write(home / file, text % factor)
            golden = folder / f"golden/{name}/y.npy"
            golden.parent.mkdir(parents=True)
            numpy.save(golden, numpy.arange(4, dtype=numpy.float64) * factor)
            write_record(folder, name)
        product = f"{{framework: [{', '.join(frameworks)}], pipeline: [linalg-loops], target: [x86_64], workload: ['{suite}-*']}}"
        write(folder / f"matrix/suites/{suite}.yaml", f"description: d\nblocks: [{{product: {product}}}]\n")
    write(folder / f"matrix/workloads/{FAILING}/pytorch.py", "def workload(x):\n    raise ValueError('no')\n")
    return folder


@dataclass
class Times:
    """Seconds since the start of a run: of each verdict, in order; of the failed action and its verdict; of the end."""

    verdicts: list[float]
    failed: float = 0.0
    shown: float = 0.0
    end: float = 0.0
    #: The sum of all actions' times, and the CPU time of this process and its workers.
    running: float = 0.0
    cpu: float = 0.0

    @property
    def half(self) -> float:
        """The share of the time after which half of the verdicts are there."""
        return self.verdicts[len(self.verdicts) // 2] / self.end

    @property
    def busy(self) -> float:
        """The share of the slots that had an action."""
        return self.running / self.end / cores()


def run(catalogs: Path, suite: str, cache: Path) -> Times:
    """Run a suite into a cache and record when its verdicts come."""
    session = open_session(catalogs=[catalogs], cache_dir=cache)
    plan = plan_tests(session, select_tests(session, [suite]))
    times, begin, cpu = Times([]), time.perf_counter(), spent()
    started: dict[str, float] = {}

    def note(event: Event) -> None:
        now = time.perf_counter() - begin
        if isinstance(event, TestDone):
            times.verdicts.append(now)
            times.shown = times.shown if event.result.expected else now
        elif isinstance(event, ActionStarted):
            started[event.action.id] = now
        elif isinstance(event, ActionDone):
            times.running += now - started.get(event.action.id, now)
            if not event.done.result.ok:
                times.failed = times.failed or now

    found = run_plan(session, plan, limits=Limits(jobs=cores()), fail_fast=False, listener=note)
    times.end, times.cpu = time.perf_counter() - begin, spent() - cpu
    failures = [result.id for result in found.results if not result.expected]
    expected = [f"pytorch/linalg-loops/x86_64/{FAILING}"] if suite == "mixed" else []
    if len(times.verdicts) != TESTS or failures != expected:
        raise SystemExit(f"not as expected, so not worth measuring: {failures}")
    return times


def longest_first(graph: Graph, _jobs: int) -> dict[str, tuple[float, float]]:
    """The old order."""
    return {key: (-path, 0.0) for key, path in queues.critical_path(graph).items()}


def main() -> int:
    """Print the shares of time; exit code 1 where verdicts come late or the run takes longer."""
    orders = {"longest first": longest_first, "now": queues.schedule}
    holds = []
    with tempfile.TemporaryDirectory(dir=open_session().home.cache) as name:
        folder = Path(name)
        added = catalog(folder / "catalog")
        for suite in SUITES:
            kit_template(open_session(catalogs=[added]), suite, folder / f"kit-{suite}")
            measured: dict[str, list[Times]] = {order: [] for order in orders}
            for number in range(RUNS + 1):
                for order, schedule in orders.items():
                    queues.schedule = schedule
                    cache = folder / f"{suite}-{order}-{number}"
                    shutil.copytree(folder / f"kit-{suite}", cache)
                    times = run(added, suite, cache)
                    if number:
                        measured[order].append(times)
            holds += report(suite, measured)
    return 0 if all(holds) else 1


def report(suite: str, measured: dict[str, list[Times]]) -> list[bool]:
    """Print the medians of both orders; whether the present one does what it must."""

    def median(order: str, value: Callable[[Times], float]) -> float:
        return statistics.median(map(value, measured[order]))

    for order, times in measured.items():
        print(
            f"     {TESTS} tests, {suite}, {order}: {median(order, lambda each: each.end):.1f} s, "
            f"{median(order, lambda each: each.cpu):.1f} CPU s, {median(order, lambda each: each.busy):.0%} of slots in use, "
            f"first verdict after {median(order, lambda each: each.verdicts[0]):.1f} s, "
            f"half after {median(order, lambda each: each.half):.0%} of the time"
        )
        if times[0].failed:
            print(f"     a failure shows {median(order, lambda each: each.shown - each.failed):.2f} s after its action")
    old, new = (median(order, lambda each: each.cpu / each.busy) for order in measured)
    half = median("now", lambda each: each.half)
    return [
        verdict(f"{suite}: share of the time until half of the verdicts", half, HALF[suite], at_most=True),
        verdict(f"{suite}: time / longest first", new / old, 1.05, at_most=True),
    ]


if __name__ == "__main__":
    sys.exit(main())
