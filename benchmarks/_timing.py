"""Fair timing of contenders: their runs take turns, so that a slow moment of the machine meets all of them."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Callable, Mapping


def medians(
    contenders: Mapping[str, Callable[[], object]], runs: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The median time of each contender in seconds, after one run of each that does not count.

    ``clock``: the wall's, or ``time.process_time`` for work of this process alone, which other programs do not disturb.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(runs + 1):
        for name, contender in contenders.items():
            gc.collect()
            begin = clock()
            contender()
            if number:
                times[name].append(clock() - begin)
    return {name: statistics.median(measured) for name, measured in times.items()}


def spent() -> float:
    """CPU seconds of this process and of those that it has buried: other programs do not disturb that."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def verdict(name: str, ratio: float, bound: float, *, at_most: bool) -> bool:
    """Print a ratio beside its bound; True where it holds."""
    holds = ratio <= bound if at_most else ratio >= bound
    relation = "at most" if at_most else "at least"
    print(f"{'ok  ' if holds else 'MISS'} {name}: {ratio:.2f} ({relation} {bound:g})")
    return holds
