"""What the isolation of an action costs a worker, in CPU time: at most 2.7 times a bare fork with the same limits.

    benchmarks/run isolation

A profile (Linux 6.18, two cores, 28 packages; medians of 150 runs of each part alone, in turns, above a bare fork of 1.7 ms):

    all together                                                        1.2 ms
    the first process of the namespace: created, ended and buried       0.2
    entering the prepared mounts and coming back                        0.15
    a copy of these mounts, empty /tmp and /dev/shm                     0.1
    the action's folder and its inputs, mounted                         0.1
    a namespace of processes, /proc, a user of its own                  0.2
    a namespace of IPC                                                  0.1
    no privileges (0.05) and the filter of system calls (0.16)          0.35

Each part is a few system calls, so 1 ms cannot be reached without giving one of them up. This benchmark has colder caches
(3.3 ms above a fork of 2.3), and the machine may have other load. So the ratio is bound, which is 1.7 in the profile and 2.4
to 2.5 here, with 77 packages. With a shell as the first process, 3.5 ms were above the fork. The mounts are prepared once
per worker; to keep a namespace of mounts for the next action would save 0.02 ms of copying.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial

from _timing import medians, spent, verdict

from mlir_matrix.actions.sandbox import isolation
from mlir_matrix.base.paths import find_home

RUNS = 400
#: Each package is a mount. A store that many releases were fetched into has hundreds; the largest environment has 28.
PACKAGES = 77


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


def main() -> int:
    """Print the cost; exit code 1 where it is too high."""
    packages = sorted(map(str, find_home().packages.iterdir()))[:PACKAGES]
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
        return 0 if verdict("isolated action / bare fork", times["isolated"] / times["bare"], 2.7, at_most=True) else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # We are the first process of a namespace by now, whose end is the end of all in it.
    os._exit(code)
