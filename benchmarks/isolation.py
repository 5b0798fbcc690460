"""What the isolation of an action costs a worker, over a bare fork that takes the same limits: at most 1 ms of CPU.

benchmarks/run isolation
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from _timing import medians, verdict

from mlir_matrix.actions.sandbox import isolation
from mlir_matrix.base.paths import find_home

RUNS = 400


def bare() -> None:
    """A child that is limited, and ends."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        isolation.limit_resources(memory_mb=4096)
        os._exit(0)
    os.waitpid(pid, 0)


def isolated(spaces: isolation.Spaces, folder: str) -> None:
    """The same with all that is taken away from an action."""
    space = spaces.open(folder, alone=True)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        isolation.limit_resources(memory_mb=4096)
        space.confine()
        os.chdir(space.folder)
        isolation.drop_privileges()
        os._exit(0)
    spaces.back()
    os.waitpid(pid, 0)
    space.kill()
    space.close()


def spent() -> float:
    """CPU seconds of this process and of those that it has buried: other programs do not disturb that."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main() -> int:
    """Print the cost; exit code 1 where it is too high."""
    packages = [str(path) for path in find_home().packages.iterdir()]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("in", "out"):
            os.mkdir(f"{folder}/{name}")
        spaces = isolation.enter(packages)
        if spaces is None or spaces.lost:
            print(f"     {isolation.lost(spaces)}")
            return 1
        times = medians({"bare": bare, "isolated": partial(isolated, spaces, folder)}, RUNS, clock=spent)
        print(
            f"     {len(packages)} packages; bare fork {times['bare'] * 1e3:.2f} ms, isolated {times['isolated'] * 1e3:.2f} ms"
        )
        cost = (times["isolated"] - times["bare"]) * 1e3
        return 0 if verdict("isolation of an action, ms", cost, 1.0, at_most=True) else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # We are the first process of a namespace by now, whose end is the end of all in it.
    os._exit(code)
