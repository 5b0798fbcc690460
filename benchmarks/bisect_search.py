"""The planner of `matrix bisect` on simulated histories: rounds, runs of flaky tests, time of a step.

    benchmarks/run bisect_search

Flaky tests are searched with the strategy of git_bayesect, too, on the same histories. All searches are those of fixed seeds.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

from _bayesect import Bayesect
from _timing import verdict

from mlir_matrix.bisect.search.history import History, LinearHistory, history
from mlir_matrix.bisect.search.search import FLAKY, ProbeVerdict, Search

JOBS = (1, 2, 4, 8)
SIZES = (100, 1_000, 10_000, 100_000)
#: Sizes and failure rates of flaky histories, and how many have each rate.
FLAKY_SIZES = (100, 10_000)
FLAKY_RATES = (0.1, 0.3, 0.5, 0.7, 0.9)
EACH = 100
BUDGET = 0.5


def rounds(points: int, jobs: int) -> int:
    """Return how many rounds a search among points takes at most, if the verdicts are certain."""
    found, most = 1, 1
    while most < points:
        found, most = found + 1, most * (jobs + 1)
    return found


def run(search: Search, probe: Callable[[int], ProbeVerdict], jobs: int) -> tuple[int, int, float]:
    """Search to the end: rounds, runs and the longest time of a step, in CPU seconds."""
    found = runs = 0
    longest = 0.0
    while True:
        begin = time.process_time()
        points = search.next(jobs)
        longest = max(longest, time.process_time() - begin)
        if not points:
            return found, runs, longest
        found, runs = found + 1, runs + len(points)
        for point in points:
            shown = probe(point)
            begin = time.process_time()
            search.observe(point, shown)
            longest = max(longest, time.process_time() - begin)


def shown(bad: bool) -> ProbeVerdict:
    return ProbeVerdict.BAD if bad else ProbeVerdict.GOOD


def noise_free(size: int, jobs: int) -> tuple[int, int]:
    """The most rounds of searches for several culprits, and how many answers were not right."""
    chance = random.Random(size)
    line, most, wrong = LinearHistory(size), 0, 0
    for culprit in {0, 1, size // 2, size - 2, size - 1, *chance.sample(range(size), 20)}:
        search = Search(line)
        search.observe(size - 1, ProbeVerdict.BAD)
        most = max(most, run(search, lambda point, culprit=culprit: shown(point >= culprit), jobs)[0])
        wrong += search.posterior()[culprit] < search.confidence
    return most, wrong


def unbuildable(size: int, jobs: int) -> float:
    """The mean of rounds where a random fifth of the points cannot be built."""
    chance, line, found = random.Random(size), LinearHistory(size), []
    for _ in range(40 if size < SIZES[-1] else 15):
        culprit = chance.randrange(size)
        gone = set(chance.sample(range(size - 1), size // 5))
        search = Search(line)
        search.observe(size - 1, ProbeVerdict.BAD)
        found.append(
            run(
                search,
                lambda point, gone=gone, culprit=culprit: (
                    ProbeVerdict.CANNOT_TELL if point in gone else shown(point >= culprit)
                ),
                jobs,
            )[0]
        )
    return statistics.mean(found)


def flaky(size: int, rate: float) -> tuple[list[int], list[int], int, int]:
    """The runs of both strategies in histories of a size, and how often each was right."""
    line, ours, theirs, right, their_right = LinearHistory(size + 1), list[int](), list[int](), 0, 0
    for number in range(EACH):
        chance = random.Random(f"{size} {rate} {number}")
        culprit = chance.randrange(1, size + 1)

        def fails(point: int, culprit: int = culprit, chance: random.Random = chance) -> bool:
            return point >= culprit and chance.random() < rate

        start = chance.getstate()
        search = Search(line, good=[0], rates=FLAKY)
        ours.append(run(search, lambda point, fails=fails: shown(fails(point)), 1)[1])
        right += search.answer().candidates == [culprit]
        chance.setstate(start)
        bayesect = Bayesect(size + 1)
        runs = 0
        while not (step := bayesect.step())[0]:
            bayesect.observe(step[1], fails(step[1]))
            runs += 1
        theirs.append(runs)
        their_right += step[1] == culprit
    return ours, theirs, right, their_right


def commits(count: int) -> list[tuple[int, ...]]:
    """A history as projects have it: a main line, many branches of a few commits, and some of hundreds that take up main."""
    chance = random.Random(1)
    parents: list[tuple[int, ...]] = [()]
    tip = 0
    while len(parents) < count:
        kind = chance.random()
        length = 0 if kind < 0.6 else chance.randrange(1, 12) if kind < 0.995 else chance.randrange(100, 400)
        branch = max(0, tip - chance.randrange(1, 3000 if length > 12 else 60))
        for number in range(1, length + 1):
            parents.append((branch,) if number % 40 else (branch, tip))
            branch = len(parents) - 1
        parents.append((tip, branch) if length else (tip,))
        tip = len(parents) - 1
    return parents


def rounds_hold(pool: ProcessPoolExecutor) -> list[bool]:
    """Compare rounds on lines with their bounds."""
    cases = list(product(SIZES, JOBS))
    sizes, jobs = zip(*cases, strict=True)
    holds = []
    for (size, count), (most, wrong), mean in zip(
        cases, pool.map(noise_free, sizes, jobs), pool.map(unbuildable, sizes, jobs), strict=True
    ):
        bound = rounds(size, count)
        name = f"{size:,} points, {count} at once"
        holds.append(
            verdict(f"{name}: most rounds / {bound}, {wrong} wrong", most / bound, 1, at_most=True) and not wrong
        )
        holds.append(verdict(f"{name}, a fifth unbuildable: mean rounds / {bound}", mean / bound, 1.3, at_most=True))
    return holds


def runs_hold(pool: ProcessPoolExecutor) -> list[bool]:
    """Compare flaky searches with git_bayesect's."""
    cases = list(product(FLAKY_SIZES, FLAKY_RATES))
    measured = dict(zip(cases, pool.map(flaky, *zip(*cases, strict=True)), strict=True))
    for (size, rate), (ours, theirs, right, their_right) in measured.items():
        print(
            f"     {size:,} points, failure rate {rate}: {statistics.mean(ours):.0f} runs, {right / EACH:.0%} right; "
            f"git_bayesect {statistics.mean(theirs):.0f}, {their_right / EACH:.0%}"
        )
    holds = []
    for size in FLAKY_SIZES:
        found = [measured[size, rate] for rate in FLAKY_RATES]
        right = statistics.mean(each[2] / EACH for each in found)
        ratio = sum(sum(each[0]) for each in found) / sum(sum(each[1]) for each in found)
        holds.append(verdict(f"{size:,} points, flaky: share right", right, 0.95, at_most=False))
        holds.append(verdict(f"{size:,} points, flaky: runs / git_bayesect", ratio, 1, at_most=True))
    return holds


def times_hold() -> list[bool]:
    """Compare the longest steps with what a step may take."""
    chance = random.Random(4)
    parents = commits(20_000)
    begin = time.process_time()
    graph = history(parents)
    made = time.process_time() - begin
    print(
        f"     {len(parents):,} commits, {sum(len(each) > 1 for each in parents):,} of them merges, are read in {made:.2f} CPU s"
    )
    line = LinearHistory(SIZES[-1])
    weights = [chance.random() for _ in range(SIZES[-1])]
    return [
        longest_step("line", line, None),
        longest_step("line with weights", line, weights),
        longest_step("graph", graph, None),
    ]


def longest_step(name: str, searched: History[Any], prior: Sequence[float] | None) -> bool:
    """Search a history for some culprits, certainly and flakily, and compare the longest step with what it may take."""
    chance, longest, size = random.Random(5), 0.0, len(searched)
    for jobs, rates in product((1, 8), (None, FLAKY)):
        most = 0
        for _ in range(3):
            culprit = chance.randrange(size)
            late = searched.sums([float(point == culprit) for point in range(size)])
            search = Search(searched, prior, rates=rates)
            search.observe(size - 1, ProbeVerdict.BAD)
            rate = 0.6 if rates else 1.0
            found, _, step = run(
                search, lambda point, late=late, rate=rate: shown(late[point] > 0 and chance.random() < rate), jobs
            )
            most, longest = max(most, found), max(longest, step)
        kind = "flaky" if rates else "with weights" if prior else f"even {rounds(size, jobs)}"
        print(f"     {name} of {size:,}, {jobs} at once: at most {most} rounds ({kind})")
    return verdict(f"{name} of {size:,}: longest step in CPU seconds", longest, BUDGET, at_most=True)


def main() -> int:
    """Print what was measured; exit code 1 where it is not what it must be."""
    with ProcessPoolExecutor() as pool:
        holds = rounds_hold(pool) + runs_hold(pool)
    return 0 if all(holds + times_hold()) else 1


if __name__ == "__main__":
    sys.exit(main())
