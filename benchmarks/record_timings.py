"""Record the times that ``matrix cost audit`` replays, on this machine, quiet and under loads that this script makes.

benchmarks/run record_timings        (ten minutes; writes tools/mlir_matrix/cost/recorded_timings.txt)

A process of its own for each number: the bench driver calls the kernel once, then in batches of 0.25 ms, of which the least
counts. Each kernel under each load has a series of equal processes, and one in the order A B B A in which B makes 103 calls, which
count as 100. The kernels are the half of 32 that a seed had held back before the decision was tuned on the others. A series
counts as quiet if other processes had at most a tenth of the core meanwhile, so the machine must be idle now and then.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy

from mlir_matrix.actions.contract import Action, Role
from mlir_matrix.actions.runtime.driver import tensor_arguments
from mlir_matrix.base.paths import repository
from mlir_matrix.execute.action_cache import ActionCache
from mlir_matrix.execute.run_graph import run_graph
from mlir_matrix.plan.chains import Chains
from mlir_matrix.plan.graph import Graph, Produced
from mlir_matrix.plan.request import Limits
from mlir_matrix.plan.session import open_session, select_tests

_FILE = repository() / "tools/mlir_matrix/cost/recorded_timings.txt"
_LOOPS = (
    "asin", "exp", "frontier_grouped_conv2d", "frontier_unique", "gelu_tanh", "layernorm", "scatter_add", "topk",
)  # fmt: skip
_VECTORIZED = (
    "frontier_custom_op", "frontier_matmul_f64", "frontier_qr", "frontier_sort", "frontier_unique",
    "frontier_unsigned", "powf", "rsqrt",
)  # fmt: skip
_TESTS = [f"mlir/linalg-loops/x86_64/{name}" for name in _LOOPS]
_TESTS += [f"mlir/linalg-vectorized/x86_64/{name}" for name in _VECTORIZED]
_BATCH_NS, _BATCHES = 250_000, 14
_EQUAL, _PLANTED = 400, 160
_SHARE = 0.03
_CORE, _OTHER_CORE = 1, 0

_COMPUTE = "while True: pass"
_STREAM = "a, b = bytearray(1 << 23), bytearray(1 << 23)\nwhile True: a[:] = b"
_BURSTS = """\
import random, time
while True:
    end = time.monotonic() + 0.005 * 2 ** random.randrange(8)
    while time.monotonic() < end: pass
    time.sleep(0.005 * 2 ** random.randrange(8))
"""
#: Programs that run beside the kernel, by load: on the other core alone, or where the kernel puts them.
_LOADS: Mapping[str, Sequence[str]] = {
    "other-core": (_STREAM,), "one-more-each": (_COMPUTE, _STREAM), "bursts": (_BURSTS,) * 3,
    "two-more-each": (_COMPUTE, _STREAM) * 2, "quiet": (),
}  # fmt: skip
#: The most that others have of the core in a quiet series, and how often to try.
_QUIET_SHARE, _TRIES = 0.1, 200
_HEAD = """\
# Times of kernels for the audit of cost comparisons, by benchmarks/record_timings.py. A line is a series in the order of time:
# test, load, share of the core that other processes had, time of B by that of A (1: equal programs; else A B B A A B B A …),
# nanoseconds of the fastest batch, then for each process its fastest batch, in ten-thousandths above that, base 36.
"""


class Kernel:
    """A kernel linked with the bench driver, in a folder of its own."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._command, self._folder = command, folder
        self.calls = 1
        for _ in range(4):
            self.calls = max(1, round(self.calls * _BATCH_NS / self.batch_ns(self.calls)))

    def batch_ns(self, calls: int) -> int:
        """Return the fastest batch of a fresh process."""
        words = [*self._command, "--calls", str(calls), "--batches", str(_BATCHES), "--timings", "costs.json"]
        subprocess.run(words, cwd=self._folder, check=True)
        return min(json.loads((self._folder / "costs.json").read_text())["batch_ns"])

    def equal(self) -> tuple[float, list[int]]:
        """Return the ratio 1 and a series."""
        return 1.0, [self.batch_ns(self.calls) for _ in range(_EQUAL)]

    def planted(self) -> tuple[float, list[int]]:
        """Return the ratio of the planted slowdown and a series."""
        more = max(1, round(self.calls * _SHARE))
        calls = round(more / _SHARE)
        order = (0, more, more, 0) * (_PLANTED // 4)
        return 1 + more / calls, [self.batch_ns(calls + each) for each in order]


def kernels(folder: Path) -> dict[str, Kernel]:
    """Link the kernels."""
    session = open_session()
    graph = Graph()
    chains = Chains(session.catalog, graph, session.pins.reference("numpy"), session.pins)
    programs = {test.id: chains.bench(test, chains.compile(test)) for test in select_tests(session, _TESTS)}
    done = run_graph(session, graph, limits=Limits(jobs=2))
    cache = ActionCache(session.home.actions)
    found = {}
    for number, (test, program) in enumerate(programs.items()):
        place = folder / str(number)
        place.mkdir()
        for name, ref in program.inputs.items():
            assert isinstance(ref, Produced)
            cache.copy_blob(done[ref.action].result.outputs[ref.output], str(place / name))
        (place / "kernel").chmod(0o755)
        results = {Role.RESULT.of(each["name"]): f"out-{each['name']}" for each in program.params["results"]}
        files = Action(params=program.params, inputs={name: name for name in program.inputs}, outputs=results)
        found[test] = Kernel(["./kernel", *tensor_arguments(files)], place)
    return found


@contextlib.contextmanager
def loaded(load: str) -> Iterator[None]:
    """Run the programs of a load on both cores."""
    os.sched_setaffinity(0, {_OTHER_CORE} if load == "other-core" else {_OTHER_CORE, _CORE})
    beside = [subprocess.Popen([sys.executable, "-c", program]) for program in _LOADS[load]]
    os.sched_setaffinity(0, {_CORE})
    time.sleep(0.5)
    try:
        yield
    finally:
        for process in beside:
            process.kill()
            process.wait()


def core_s() -> tuple[float, float]:
    """Return the seconds that the core has worked, and those of this process and its children."""
    (line,) = (line for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{_CORE} "))
    user, nice, system, _idle, _wait, *others = map(int, line.split()[1:9])
    own = os.times()
    busy = (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")
    return busy, own.user + own.system + own.children_user + own.children_system


def undisturbed(series: Callable[[], tuple[float, list[int]]], most: float) -> tuple[float, float, list[int]]:
    """Record a series while others have at most so much of the core; return their share, too."""
    for _ in range(_TRIES):
        start, (busy, own) = time.monotonic(), core_s()
        ratio, times = series()
        now_busy, now_own = core_s()
        share = max(0.0, (now_busy - busy - (now_own - own)) / (time.monotonic() - start))
        if share <= most:
            return share, ratio, times
        time.sleep(1)
    raise SystemExit("the machine is never quiet; run this where nothing else runs")


def main(path: Path = _FILE) -> None:
    """Record and write all series."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        found = kernels(Path(folder))
        for load in _LOADS:
            with loaded(load):
                for test, kernel in found.items():
                    for series in (kernel.equal, kernel.planted):
                        share, ratio, times = undisturbed(series, 1.0 if _LOADS[load] else _QUIET_SHARE)
                        least = min(times)
                        above = " ".join(numpy.base_repr(round((each / least - 1) * 10_000), 36) for each in times)
                        lines.append(f"{test} {load} {share:.2f} {ratio:.4f} {least} {above}\n")
                        print(lines[-1][:80], flush=True)
    path.write_text(_HEAD + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
