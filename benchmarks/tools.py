"""What a tool of a catalog costs per action more than the same tool of the program: at most 5 % or 5 ms.

benchmarks/run tools

Both do the same work in warm workers: the file only calls our module. The time is that of an action from request to answer.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from _timing import medians, verdict

from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.execute.local_pool import WorkerProcess, start_worker
from mlir_matrix.execute.worker_process import Preload
from mlir_matrix.plan.session import open_session

RUNS = 200
PARAMS = {
    "dims": {},
    "inputs": [{"name": "x", "shape": [64, 64], "dtype": "f32", "formula": "uniform(-1, 1)", "seed": 1}],
}
FILE = "from mlir_matrix.actions.tools.inputs import run\n"


def perform(worker: WorkerProcess, folder: Path, tool: str) -> None:
    """Make a folder with a request, and wait for the answer."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "in").mkdir(parents=True)
    (folder / "out").mkdir()
    inputs = {}
    if tool == "python_file":
        (folder / "in/tool.py").write_text(FILE)
        inputs = {"tool": "in/tool.py"}
    request = {"tool": tool, "stage": "import", "params": PARAMS, "inputs": inputs, "outputs": {"x": "out/x.npy"}}
    (folder / "action.json").write_text(json.dumps(request))
    worker.send(worker.request(str(folder), None, timeout_s=60, memory_mb=4096))
    while not worker.receive()[0]:
        pass
    assert (folder / "out/x.npy").stat().st_size > 64 * 64 * 4, (folder / "outcome.json").read_text()


def main() -> int:
    """Print the cost; exit code 1 where it is too high."""
    session = open_session()
    environment = session.environment("numpy")
    assert isinstance(environment, ResolvedEnvironment), environment.reason
    with tempfile.TemporaryDirectory() as name:
        scratch, workers = Path(name), []
        contenders: dict[str, Callable[[], object]] = {}
        for tool in ("inputs", "python_file"):
            (scratch / tool).mkdir()
            home = session.home
            worker = start_worker(
                environment,
                Preload({tool, "inputs"}, set()),
                store=home.packages,
                bytecode=home.bytecode,
                scratch=scratch / tool,
            )
            workers.append(worker)
            contenders[tool] = partial(perform, worker, scratch / tool / "action", tool)
        times = medians(contenders, RUNS)
        for worker in workers:
            worker.stop()
    ours, theirs = times["inputs"] * 1e3, times["python_file"] * 1e3
    print(f"     an action of ours {ours:.1f} ms, of a catalog {theirs:.1f} ms")
    return (
        0 if verdict("a catalog's tool more than ours, ms", theirs - ours, max(5.0, 0.05 * ours), at_most=True) else 1
    )


if __name__ == "__main__":
    sys.exit(main())
