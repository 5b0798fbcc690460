"""Compare two programs by as many pairs of times as it takes, and confirm an alarm before it is one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from mlir_matrix.statistics.decision import ERROR, FLOOR, LOOKS, Decision, decide

#: The most pairs of a comparison: half of them to decide, half to confirm.
MOST_PAIRS = 2 * LOOKS[-1]
#: The chance of any false alarm among all comparisons of a suite.
_ANY_FALSE_ALARM = 0.01

Pairs = Sequence[tuple[float, float]]
#: Times so many pairs, none of them seen before.
Sample = Callable[[int], Pairs]
K = TypeVar("K")


def measure(sample: Sample, *, floor: float = FLOOR, budget_pairs: int = MOST_PAIRS, comparisons: int = 1) -> Decision:
    """Return what the second side is against the first, after at most ``budget_pairs`` pairs (:func:`comparing`)."""
    return _driven(comparing(floor=floor, budget_pairs=budget_pairs, comparisons=comparisons), sample)


def first_decision(sample: Sample, budget_pairs: int) -> Decision:
    """Return what :func:`measure` decides before it confirms an alarm."""
    return _driven(_deciding(FLOOR, budget_pairs // 2, ERROR), sample)


def _driven(steps: Generator[int, Pairs, Decision], sample: Sample) -> Decision:
    wanted = next(steps)
    while True:
        try:
            wanted = steps.send(sample(wanted))
        except StopIteration as end:
            decision: Decision = end.value
            return decision


def measure_all(
    sample: Callable[[Mapping[K, int]], Mapping[K, Pairs | str]], names: Iterable[K], *, floor: float = FLOOR
) -> dict[K, Decision | str]:
    """Compare many pairs of programs in rounds, so that each round is one call of ``sample``.

    ``sample``: gets how many pairs each comparison needs, and returns them, or why a program cannot be timed.
    """
    names = list(names)
    running = {name: comparing(floor=floor, budget_pairs=MOST_PAIRS, comparisons=len(names)) for name in names}
    wanted = {name: next(steps) for name, steps in running.items()}
    decided: dict[K, Decision | str] = {}
    while wanted:
        for name, pairs in sample(wanted).items():
            del wanted[name]
            if isinstance(pairs, str):
                decided[name] = pairs
                continue
            try:
                wanted[name] = running[name].send(pairs)
            except StopIteration as end:
                decided[name] = end.value
    return decided


def comparing(*, floor: float, budget_pairs: int, comparisons: int) -> Generator[int, Pairs, Decision]:
    """Yield how many more pairs are needed, take them, and return what the second side is against the first.

    «Slower» and «faster» are said only if fresh pairs confirm them; the ratio and its interval are those of the fresh pairs, which
    nothing has selected. ``comparisons``: how many the suite has. The more there are, the stricter is the confirmation, so that
    the chance of *any* false alarm stays the same. This bounds more than the rate of false discoveries, and costs pairs only
    where there is an alarm.
    """
    most = budget_pairs // 2
    first = yield from _deciding(floor, most, ERROR)
    if first.word in ("same", "cannot tell"):
        return first
    fresh = yield from _deciding(floor, most, min(ERROR, _ANY_FALSE_ALARM / comparisons))
    pairs = first.pairs + fresh.pairs
    if fresh.word != first.word:
        return replace(fresh, word="cannot tell", pairs=pairs)
    return replace(fresh, pairs=pairs)


def _deciding(floor: float, most: int, error: float) -> Generator[int, Pairs, Decision]:
    """Take pairs up to each look in turn, until they decide or ``most`` are there."""
    pairs: list[tuple[float, float]] = []
    for look in LOOKS:
        wanted = min(look, most)
        pairs += yield wanted - len(pairs)
        decision = decide(pairs, floor=floor, final=wanted == most or look == LOOKS[-1], error=error)
        if decision is not None:
            return decision
    raise AssertionError("the last look is final")
