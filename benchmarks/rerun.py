"""``tools/matrix run`` again, with everything unchanged, and ``tools/matrix --help``: wall time as a person waits.

benchmarks/run rerun

An unchanged run of smoke is compared with an interpreter that imports four libraries of the program, and an unchanged run of
10,000 tests with one of 500. That no framework is imported is shown, too: no process is started, and the program's own has
none of their modules.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from _matrix import LAUNCHER, ROOT, matrix, observed
from _synthetic import catalog
from _timing import medians, verdict

from mlir_matrix.base.digest import canonical, digest_bytes
from mlir_matrix.base.paths import Home
from mlir_matrix.catalog.pins import Pins
from mlir_matrix.environments.resolve import ResolvedEnvironment
from mlir_matrix.environments.session import Session
from mlir_matrix.execute.action_cache import ActionCache, Result
from mlir_matrix.execute.job import Done
from mlir_matrix.execute.lookup import Lookup
from mlir_matrix.expand.suite import expand
from mlir_matrix.plan.session import plan_tests

RUNS = 15
IR_TEST = "jax/linalg-loops/x86_64/mlp"
FRAMEWORKS = frozenset({"torch", "torch_mlir", "jax", "jaxlib", "onnx", "iree", "mlir", "numpy"})
LIBRARIES = "import click, rich.console, pydantic, yaml"
#: Frameworks, pipelines, targets and workloads of a small and a large catalog: 500 and 10,000 tests.
SMALL, LARGE = (5, 10, 2, 5), (10, 20, 2, 25)
_PASS = {"outcome": "pass", "reason": "", "outputs": [], "metrics": {"max_ulp": 1}}


class Unchanged:
    """A catalog all of whose results are in a cache: made up, since to execute so many takes an hour."""

    def __init__(self, folder: Path, sizes: tuple[int, int, int, int]) -> None:
        self._env = {**os.environ, "MATRIX_ROOT": str(folder / "catalog"), "MATRIX_HOME": str(folder / "home")}
        # The launcher's environment, not another one.
        tool = Path(sys.prefix).parent
        (folder / "home").mkdir(parents=True)
        (folder / "home" / "tool").symlink_to(tool, target_is_directory=True)
        found = catalog(folder / "catalog", *sizes, own_steps=True)
        shutil.copytree(ROOT / "tools" / "driver", folder / "catalog" / "tools" / "driver")
        home = Home(cache=folder / "home", state=folder / "home", actions=folder / "home" / "actions")
        self._kept = home.actions / "unchanged"
        _fill(Session(catalog=found, home=home, pins=Pins(found)))

    def run(self) -> str:
        """Run all tests."""
        command = [LAUNCHER, "run", "all"]
        done = subprocess.run(command, env=self._env, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return done.stdout

    def run_anew(self) -> str:
        """Run all tests as after a change of the program: their results are in the cache of actions only."""
        shutil.rmtree(self._kept, ignore_errors=True)
        return self.run()

    def settle(self) -> None:
        """Have the results kept, once no file is new."""
        while not self._kept.exists():
            time.sleep(1)
            self.run()


def _fill(session: Session) -> None:
    """Put a result of every action into the cache."""
    catalog = session.catalog
    graph = plan_tests(session, expand(catalog, catalog.suites["all"]).tests()).graph
    store = ActionCache(session.home.actions)
    store.prepare()
    lookup = Lookup(graph, catalog.roots, store, memory_mb=0)
    environments = session.environments(action.environment for action in graph.actions.values())
    done: dict[str, Done] = {}
    for action in graph.actions.values():
        environment = environments[action.environment]
        assert isinstance(environment, ResolvedEnvironment)
        prepared = lookup.prepare(action, environment.digest, done)
        outputs = {}
        for name in action.outputs:
            data = canonical(_PASS if name == "verdict" else [name, action.id])
            outputs[name] = digest_bytes(data)
            Path(store.blob_path(outputs[name])).write_bytes(data)
        result = Result(
            outcome={"outcome": "ok", "stage": action.stage, "reason": ""}, outputs=outputs, memory_mb=1 << 20
        )
        store.keep(prepared.key, result)
        done[action.id] = Done(result=result, cached=True)


def libraries() -> None:
    """Start an interpreter that imports libraries."""
    options = ["-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else []
    subprocess.run([sys.executable, "-P", "-s", *options, "-c", LIBRARIES], check=True)


def main() -> int:
    """Print the times; exit code 1 where one is too long."""
    matrix("run", "smoke", "--quiet")  # what is not known yet becomes known
    report = observed("smoke")
    results = report.document
    imported = sorted(FRAMEWORKS & report.modules)
    # The document names the commits of the catalogs, for which Git is asked.
    processes = observed("smoke", form="table").others_rss
    done = [results["executed"], len(imported), int(processes > 0)]
    print(
        f"     {results['summary']['total']} tests: {done[0]} actions executed; frameworks imported: "
        f"{', '.join(imported) or 'none'}; processes started: {'some' if done[2] else 'none'}; CPU {report.own_s:.3f} s"
    )
    with tempfile.TemporaryDirectory() as folder:
        small, large = (Unchanged(Path(folder) / f"{sizes}", sizes) for sizes in (SMALL, LARGE))
        anew = medians({"500, anew": small.run_anew, "10,000, anew": large.run_anew}, 1)
        small.settle()
        large.settle()
        contenders = {
            "run": partial(matrix, "run", "smoke"),
            "ir": partial(matrix, "ir", IR_TEST),
            "--help": partial(matrix, "--help"),
        }
        times = anew | medians({**contenders, LIBRARIES: libraries, "500": small.run, "10,000": large.run}, RUNS)
    for name, seconds in times.items():
        print(f"     {name}: {seconds:.3f} s")
    holds = [
        verdict("actions executed, frameworks imported, processes started", sum(done), 0, at_most=True),
        verdict("unchanged run of smoke / 0.5 s", times["run"] / 0.5, 1, at_most=True),
        verdict("matrix ir of a cached test / 0.3 s", times["ir"] / 0.3, 1, at_most=True),
        verdict(f"unchanged run of smoke / {LIBRARIES}", times["run"] / times[LIBRARIES], 2, at_most=True),
        verdict("unchanged runs of 10,000 tests / 500", times["10,000"] / times["500"], 6, at_most=True),
        verdict("matrix --help / 0.15 s", times["--help"] / 0.15, 1, at_most=True),
    ]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
