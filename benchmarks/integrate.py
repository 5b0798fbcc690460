"""`matrix integrate` on simulated monorepos and on random carried patches: builds per culprit, and how often it is right.

    benchmarks/run integrate

Commits and verdicts of tests are simulated; repositories and patches are git's.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections import Counter
from math import log2
from pathlib import Path

from _timing import verdict

from mlir_matrix.integrate.upstream import UpstreamChanges
from mlir_matrix.integrate.verdicts import judge_patches
from support.fake_history import make_monorepo
from support.patch_cases import make_case

COMMITS = 2000
HISTORIES = 100
PATCHES = 200
#: Of a repository.
EACH = 12


def walks(unbuildable: float) -> tuple[list[float], list[int], int]:
    """Return the builds per culprit, the builds of all walks, and how many walks were not right."""
    builds, totals, wrong = list[float](), list[int](), 0
    for seed in range(HISTORIES):
        made = make_monorepo(seed, COMMITS, unbuildable)
        walk = made.history.walk()
        best = walk.run()
        found = {point for each in walk.breaks for point in each.candidates}
        wrong += best != made.furthest(walk.line) or not found.issuperset(made.shown)
        builds += [each.builds for each in walk.breaks]
        totals.append(len(made.history.probed))
    return builds, totals, wrong


def judged() -> tuple[Counter[str], int, float]:
    """Return how many carried patches were of each kind, how many verdicts were wrong, and the seconds of all."""
    counts, wrong, seconds = Counter[str](), 0, 0.0
    seed = 0
    while counts.total() < PATCHES:
        seed += 1
        with tempfile.TemporaryDirectory() as scratch:
            case = make_case(Path(scratch) / "upstream", seed, EACH)
            begin = time.perf_counter()
            trees = case.trees(Path(scratch) / "objects")
            commits = case.commits(trees)
            line = list(commits.ids)
            upstream = UpstreamChanges(commits, trees)
            found = judge_patches(case.patches, upstream, line, case.trial(trees, line[-1]), ())
            seconds += time.perf_counter() - begin
        counts.update(case.expected.values())
        wrong += sum(each.state != case.expected[each.patch.name] for each in found)
    return counts, wrong, seconds


def main() -> int:
    bound = log2(COMMITS) + 2
    holds = list[bool]()
    print(f"{HISTORIES} histories of {COMMITS} commits with merges and two culprits; log2 + 2 = {bound:.1f}")
    for unbuildable in (0.0, 0.15):
        builds, totals, wrong = walks(unbuildable)
        middle, most = statistics.median(builds), max(builds)
        print(
            f"  {unbuildable:.0%} cannot be built: {middle:.0f} builds a culprit, at most {most:.0f};"
            f" {statistics.median(totals):.0f} a walk; {wrong} walks are wrong"
        )
        # A commit that cannot be built tells nothing, so that more are tried.
        holds.append(verdict("builds a culprit", middle if unbuildable else most, bound, at_most=True))
        holds.append(verdict("walks that are wrong", wrong, 0, at_most=True))
    counts, wrong, seconds = judged()
    kinds = ", ".join(f"{count} {state}" for state, count in counts.most_common())
    print(
        f"{counts.total()} carried patches ({kinds}): {wrong} verdicts are wrong; {seconds / counts.total():.2f} s a patch"
    )
    holds.append(verdict("verdicts of patches that are wrong", wrong, 0, at_most=True))
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
