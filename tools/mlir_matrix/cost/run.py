"""Count and time the tests of one side, or of two."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import cast

from mlir_matrix.actions.outcomes import RIGHT, Outcome
from mlir_matrix.catalog.models.machines import Peaks
from mlir_matrix.compare.documents import Number
from mlir_matrix.cost.against import Other
from mlir_matrix.cost.documents import (
    ChangedCost,
    ComparedTest,
    CostComparison,
    CostsDocument,
    CostWord,
    TestCosts,
    TimeComparison,
    WorkOfTest,
)
from mlir_matrix.cost.measure import Pairs, measure_all
from mlir_matrix.cost.sampling import Timed, WantedSamples, sample_all
from mlir_matrix.cost.sides import CostSide, SideTest, run_side, tests_named
from mlir_matrix.cost.work import share_of_peak
from mlir_matrix.environments.session import Session
from mlir_matrix.expand.expansion import Test
from mlir_matrix.fleet.peaks import kept_peaks
from mlir_matrix.plan.request import Limits
from mlir_matrix.results.costs import compared
from mlir_matrix.results.documents import Costs, KernelTime
from mlir_matrix.statistics.decision import Decision

#: Samples of a kernel that is not compared with another.
_SAMPLES = 11
#: What a decision on times says of a test.
_WORDS: Mapping[str, CostWord] = {"faster": "better", "slower": "worse", "same": "same", "cannot tell": "cannot tell"}


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How to time programs: not at all, or within limits."""

    wanted: bool
    floor: float
    limits: Limits
    #: Called with the number of programs before they are timed.
    progress: Callable[[int], None]


def costs_of_side(side: CostSide, timing: Timing) -> CostsDocument:
    """Return the costs of all tests of a side that ran."""
    ran = side.ran()
    times = _times(side, ran, timing)
    peaks = kept_peaks(side.session.home)
    tests = [_with_work(side, _costs_of(each, times.get(each.program)), peaks) for each in ran]
    measured = sum("costs" in each for each in tests)
    return {
        "schema": "mlir-matrix/costs/v1",
        "tests": tests,
        "summary": {"total": len(tests), "measured": measured},
    }


def _times(side: CostSide, tests: Sequence[SideTest], timing: Timing) -> dict[str, KernelTime | str]:
    """Return the time of each program that can be timed, or why it cannot; tests may have equal programs."""
    programs = {
        each.program: WantedSamples(first=each.timed, second=None, pairs=_SAMPLES)
        for each in tests
        if each.outcome == Outcome.PASS and isinstance(each.timed, Timed)
    }
    if not timing.wanted or not programs:
        return {}
    timing.progress(len(programs))
    times: dict[str, KernelTime | str] = {}
    for name, pairs in sample_all(side.session, programs, timing.limits).items():
        times[name] = pairs if isinstance(pairs, str) else _kernel_time(pairs)
    return times


def _costs_of(test: SideTest, time: KernelTime | str | None) -> TestCosts:
    found: TestCosts = {"id": test.id, "outcome": test.outcome, "reason": test.reason}
    if test.outcome != Outcome.PASS or test.costs is None:
        return found
    costs = Costs(**test.costs)
    why = time if isinstance(time, str) else test.timed
    if isinstance(why, str):
        costs["absent"] = {**costs["absent"], "time": why}
    elif time is not None and not isinstance(time, str):
        costs["time"] = time
    found["costs"] = costs
    return found


def _with_work(side: CostSide, test: TestCosts, peaks: Peaks | None) -> TestCosts:
    """Add what a call has to do at least to a test with a time, and how much of the machine's peak it reaches."""
    time = test["costs"].get("time") if "costs" in test else None
    if time is None:
        return test
    work = side.work(test["id"])
    shown: WorkOfTest = {"bytes": work.bytes}
    if work.flops is None:
        shown["absent"] = work.absent
    else:
        shown["flops"] = work.flops
    peak = share_of_peak(work, time["ns"], peaks) if peaks else None
    if peak is None:
        return {**test, "work": shown}
    peak["fraction"] = round(peak["fraction"], 4)
    return {**test, "work": shown, "peak": peak}


def _kernel_time(pairs: Sequence[tuple[float, float]]) -> KernelTime:
    """Return the median of samples. The interval is that of the order statistics that hold it with at least 99 %."""
    found = sorted(first for first, _ in pairs)
    outside = _outside(len(found))
    return {
        "ns": round(median(found), 1),
        "low": round(found[outside], 1),
        "high": round(found[-1 - outside], 1),
        "samples": len(found),
    }


def _outside(count: int) -> int:
    """Return how many values at each end may be left out so that the rest holds the median with 99 %."""
    left, probability = 0, math.comb(count, 0) / 2**count
    while 2 * probability <= 0.01:
        left += 1
        probability += math.comb(count, left) / 2**count
    return left


def compare_sides(
    current: Session, tests: Sequence[Test], other: Other, against: str, timing: Timing, *, quiet: bool
) -> CostComparison:
    """Compare each test that runs with its test on the other side. Raise the interruption of a run, if any.

    What compiles to the same program on both sides is neither counted nor timed.
    """
    limits = timing.limits
    side = run_side(current, tests, limits, quiet=quiet, counting=False)
    others = None
    if other.session is not None:
        wanted = tests_named(other.session, [other.test(each.id) for each in side.ran()])
        others = run_side(other.session, wanted, limits, quiet=quiet, counting=False)
        differing = [each.id for each in side.ran() if _differ(each, others.tested(other.test(each.id)))]
        others = others.counted({other.test(name) for name in differing}, limits, quiet=quiet)
    else:
        differing = [each.id for each in side.ran() if each.program]
    side = side.counted(set(differing), limits, quiet=quiet)
    ran = side.ran()
    against_each = {each.id: _other_of(each.id, other, others) for each in ran}
    decisions = _decisions(side, ran, against_each, timing)
    compared = [_compared(side, each, against_each[each.id], decisions.get(each.id)) for each in ran]
    return {
        "schema": "mlir-matrix/cost-comparison/v1",
        "against": against,
        "tests": compared,
        "summary": {"total": len(compared), "by_word": dict(Counter(each["word"] for each in compared))},
    }


def _differ(test: SideTest, other: SideTest | None) -> bool:
    """Return whether both tests pass with programs that differ."""
    return other is not None and bool(test.program and other.program) and test.program != other.program


def _other_of(test: str, other: Other, others: CostSide | None) -> SideTest | None:
    """Return the test that stands against a test: one that ran, or a recorded one."""
    if others is not None:
        return others.tested(other.test(test))
    return SideTest.recorded(other.recorded[test]) if test in other.recorded else None


def _decisions(
    side: CostSide, tests: Sequence[SideTest], others: Mapping[str, SideTest | None], timing: Timing
) -> dict[str, Decision | str]:
    """Time all tests that differ from their other side and can be timed; those with equal programs once."""
    programs: dict[tuple[str, str], tuple[Timed, Timed]] = {}
    keys: dict[str, tuple[str, str]] = {}
    for test in tests:
        other = others[test.id]
        if other is None or not _differ(test, other):
            continue
        if isinstance(other.timed, Timed) and isinstance(test.timed, Timed):
            keys[test.id] = (other.program, test.program)
            programs[keys[test.id]] = (other.timed, test.timed)
    if not timing.wanted or not programs:
        return {}
    timing.progress(len(programs))

    def samples(wanted: Mapping[tuple[str, str], int]) -> Mapping[tuple[str, str], Pairs | str]:
        asked = {
            key: WantedSamples(first=programs[key][0], second=programs[key][1], pairs=pairs)
            for key, pairs in wanted.items()
        }
        return sample_all(side.session, asked, timing.limits)

    found = measure_all(samples, programs, floor=timing.floor)
    return {name: found[key] for name, key in keys.items()}


def _compared(side: CostSide, test: SideTest, other: SideTest | None, decision: Decision | str | None) -> ComparedTest:
    """Compare a test with its other side: by its program, else by exact costs and the decision on its time."""
    found: ComparedTest = {"id": test.id, "other": other.id if other else "", "word": "not compared"}
    if reason := _incomparable(test, other):
        found["reason"] = reason
        return found
    assert other is not None
    if other.program and other.program == test.program:
        found["word"] = "equal"
        return found
    assert test.costs is not None
    assert other.costs is not None
    before, now = other.costs["exact"], test.costs["exact"]
    shared = _shared(before, now)
    if not shared and not isinstance(decision, Decision):
        absent = [*test.costs["absent"].values(), *other.costs["absent"].values()]
        found["reason"] = decision or next(iter(absent), "its sides have no exact cost in common")
        return found
    found["exact"] = _changed(side, test, {name: (before[name], now[name]) for name in shared})
    words = set[str](each["word"] for each in found["exact"].values()) & {"better", "worse"}
    untimed = [each for each in (decision, test.timed, other.timed) if isinstance(each, str)]
    if untimed:
        found["untimed"] = untimed[0]
    elif isinstance(decision, Decision):
        found["time"] = _comparison(decision)
        words |= {_WORDS[decision.word]} - {"same"}
    if len(words) > 1:
        words -= {"cannot tell"}
    found["word"] = "mixed" if len(words) > 1 else cast("CostWord", next(iter(words), "same"))
    return found


def _incomparable(test: SideTest, other: SideTest | None) -> str:
    """Return why two tests are not compared; empty if they are."""
    if other is None:
        return "the other side has no such test that runs"
    for each, where in ((test, ""), (other, "on the other side ")):
        if each.outcome not in RIGHT:
            return f"{where}it does not pass: {each.outcome}: {each.reason}"
    is_recorded = not other.program
    for each, where in ((test, ""), (other, "on the other side ")):
        if each.costs is None and (is_recorded or test.program != other.program):
            return f"{where}it has no costs; a run records them with --cost"
        if is_recorded and each.costs is not None and each.costs.get("native"):
            return "its code is for the CPU of a machine, and that of the recorded run may be another one"
    return ""


def _shared(before: Mapping[str, Number], now: Mapping[str, Number]) -> list[str]:
    """Return the exact costs that both sides have, and that are known in the same way."""
    names = sorted(before.keys() & now.keys())
    if ("instructions" in before) == ("instructions" in now):
        return names
    # Where a kernel is not executed, these are those of innermost loops, each of which counts alike.
    return [name for name in names if name != "vector_share" and not name.startswith("cycles_")]


def _changed(side: CostSide, test: SideTest, values: Mapping[str, tuple[Number, Number]]) -> dict[str, ChangedCost]:
    """Return the exact costs that differ, by name and before and now; the bounds are those of goldens."""
    found: dict[str, ChangedCost] = {}
    for name, (before, now) in values.items():
        if before != now:
            bound = side.bounds.bound(side.tests[test.id], name)
            # Without a bound, a cost is no measure of better or worse: more operations may be faster.
            word = compared(name, float(now), float(before), bound) if bound.position else "differs"
            found[name] = {"before": before, "now": now, "word": word}
    return found


def _comparison(decision: Decision) -> TimeComparison:
    return {
        "word": decision.word,
        "ratio": round(decision.ratio, 4),
        "low": round(decision.low, 4),
        "high": round(decision.high, 4),
        "pairs": decision.pairs,
    }
