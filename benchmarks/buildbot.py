"""A build of Buildbot that runs the suite smoke, cold, against `matrix run` alone.

    benchmarks/run buildbot

Both take turns, each with an empty action cache; master and worker are on this machine and so share its cores with the run.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from _matrix import LAUNCHER, matrix
from _timing import verdict

from mlir_matrix.base.paths import find_home
from support.buildmaster import Master
from support.workspace import Workspace

RUNS = 3
CONFIG = """
from mlir_matrix.buildbot import configure
c = BuildmasterConfig = configure(
    repository={repository!r}, program={program!r}, workers={{"worker": "smoke --cache-dir ../actions"}},
    www_port=WWW, worker_port=WORKER,
)
"""


def build(master: Master, number: int) -> tuple[float, float, int]:
    """Return the seconds of a build, those of its command alone, and the number of its cells."""
    master.force("run", "worker")
    done = master.wait("worker", number)
    steps = done.steps
    whole = sum(steps[name]["complete_at"] - steps[name]["started_at"] for name in ("git", "matrix run"))
    log = done.logs("matrix run")["stdio"]
    return whole, float(log.rpartition("elapsedTime=")[2].split()[0]), len(steps) - 4


def main() -> int:
    matrix("run", "smoke", "--quiet")  # packages are installed
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        repository = Path(folder) / "repository"
        commands = (["init", "--quiet", "-b", "main"], ["commit", "--quiet", "--allow-empty", "--message", "Begin"])
        repository.mkdir()
        for words in commands:
            subprocess.run(
                ["git", "-c", "user.name=me", "-c", "user.email=me@example.com", *words], cwd=repository, check=True
            )
        config = CONFIG.format(repository=str(repository), program=LAUNCHER)
        alone, builds, cells = [], [], 0
        with Master(Path(folder), Workspace(find_home().cache), config, ["worker"], most_s=1800) as master:
            for number in range(1, RUNS + 1):
                with tempfile.TemporaryDirectory(dir="/var/tmp") as cache:
                    begin = time.perf_counter()
                    matrix("run", "smoke", "--cache-dir", cache)
                    alone.append(time.perf_counter() - begin)
                took, command, cells = build(master, number)
                shutil.rmtree(Path(folder) / "worker" / "worker" / "actions")
                builds.append(took)
                print(
                    f"     alone {alone[-1]:.1f} s; the command in a build {command:.1f} s, the build {took:.1f} s",
                    flush=True,
                )
    ratio = statistics.median(builds) / statistics.median(alone)
    over = (statistics.median(builds) - statistics.median(alone)) / cells
    holds = [
        verdict(f"a build of smoke, {cells} cells / matrix run", ratio, 1.1, at_most=True),
        verdict("seconds that a cell adds / 0.15", over / 0.15, 1, at_most=True),
    ]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        raise SystemExit(main())
