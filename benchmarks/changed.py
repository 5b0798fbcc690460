"""``matrix plan --changed-since`` of 109,200 tests after a change of one step, against ``matrix plan`` of them: wall time.

Two loads and plans are 2; one is made in a process of its own, on another core.

benchmarks/run changed
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from _matrix import PROGRAM
from _synthetic import catalog
from _timing import medians, verdict

CELLS, WORKLOADS, RUNS = (2, 14, 3), 1300, 3
MOST = 2.5


def plan(folder: Path, *words: str) -> int:
    """Number of tests that run."""
    done = subprocess.run(
        [*PROGRAM, "plan", "all", *words],
        env={**os.environ, "MATRIX_ROOT": str(folder)},
        check=True,
        capture_output=True,
        text=True,
    )
    return int(next(line for line in done.stdout.splitlines() if " to run in " in line).split()[0].replace(",", ""))


def main() -> int:
    """Print the ratios; exit code 1 where one does not hold."""
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        catalog(folder, *CELLS, WORKLOADS, own_steps=True)
        environment = {"PATH": os.environ["PATH"], "HOME": name, "GIT_CONFIG_NOSYSTEM": "1"}
        git = partial(subprocess.run, cwd=folder, env=environment, check=True)
        git(["git", "init", "-q"])
        git(["git", "add", "-A"])
        git(["git", "-c", "user.name=b", "-c", "user.email=b@example.org", "commit", "-q", "-m", "All"])
        for what, file, old, new, expected in (
            ("one pipeline", "recipes/pipelines/pipeline-003.yaml", "times: 3", "times: 99", 6 * WORKLOADS),
            ("a step of all", "recipes/steps/lower/step.yaml", "canonicalize{", "cse,canonicalize{", 84 * WORKLOADS),
        ):
            path = folder / file
            path.write_text(path.read_text().replace(old, new))
            since = ("--changed-since", "HEAD")
            assert plan(folder, *since) == expected
            times = medians({"plan": partial(plan, folder), "since": partial(plan, folder, *since)}, RUNS)
            print(
                f"     {what}: plan {times['plan']:.1f} s, --changed-since {times['since']:.1f} s, {expected:,} tests affected"
            )
            results.append(
                verdict(
                    f"--changed-since / plan, after a change of {what}",
                    times["since"] / times["plan"],
                    MOST,
                    at_most=True,
                )
            )
            git(["git", "checkout", "-q", "."])
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
