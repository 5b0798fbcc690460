"""Audit comparisons of times: how often equal programs are called different, and a planted slowdown is not found.

The times were recorded on a quiet and on a loaded machine (``benchmarks/record_timings.py``), of kernels that a seed had held
back before the decision was tuned on others. A comparison takes its pairs from one series, from some place on, as a comparison
that runs at that time takes them. Comparisons share samples, so their bounds are a little narrower than those of as many machines.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import islice

from mlir_matrix.base.errors import InfrastructureError
from mlir_matrix.cost.documents import AuditedComparisons, CostAudit
from mlir_matrix.cost.measure import MOST_PAIRS, Pairs, Sample, first_decision, measure, measure_all
from mlir_matrix.cost.sampling import Timed, WantedSamples, sample_all
from mlir_matrix.environments.session import Session
from mlir_matrix.plan.request import Limits
from mlir_matrix.statistics.decision import Decision
from mlir_matrix.statistics.series import wilson

#: What must hold: false alarms before confirmation, and planted slowdowns that are found where no load was made.
MOST_FALSE, LEAST_FOUND = 0.001, 0.95
#: In how many pairs a planted slowdown must be found, before it is confirmed.
WITHIN = 15
#: The comparisons of a suite, among which no false alarm may remain.
SUITE = 16_000
_ALARMS = frozenset({"faster", "slower"})
_QUIET = "quiet"


@dataclass(frozen=True, kw_only=True)
class TimeSeries:
    """Times of fresh processes of one kernel, one after the other: all equal, or A B B A … in which B is slower."""

    test: str
    load: str
    #: The time of B by that of A.
    ratio: float
    #: In ten-thousandths of the least.
    times: Sequence[int]

    def pairs(self, start: int) -> Iterator[tuple[float, float]]:
        """Yield pairs from a place on, around the end. Two places further on, the sides are swapped."""
        times, count = self.times, len(self.times)
        for at in (place % count for place in range(start, start + count, 4)):
            # A pair around the end was not measured at one time.
            if at + 4 <= count:
                yield min(times[at], times[at + 3]), min(times[at + 1], times[at + 2])

    def sampler(self, start: int) -> Sample:
        """Return a function that takes the next pairs."""
        pairs = self.pairs(start)
        return lambda count: list(islice(pairs, count))


@dataclass(kw_only=True)
class Tally:
    """The comparisons under one load."""

    load: str
    ratio: float
    words: Counter[str] = field(default_factory=Counter)
    #: Equal programs that were called different, and planted slowdowns that were called the opposite.
    false: int = 0
    found: int = 0
    pairs: int = 0
    #: Alarms that fresh pairs confirmed.
    confirmed: int = 0

    def to_json(self) -> AuditedComparisons:
        total = self.words.total()
        return {
            "load": self.load, "ratio": self.ratio, "comparisons": total, "pairs": round(self.pairs / max(total, 1), 2),
            "words": dict(self.words), "false": self.false, "found": self.found, "confirmed": self.confirmed,
        }  # fmt: skip


def recorded() -> list[TimeSeries]:
    """Read the recorded times."""
    text = (files("mlir_matrix.cost") / "recorded_timings.txt").read_text(encoding="utf-8")
    found = []
    for line in text.splitlines():
        if not line.startswith("#"):
            test, load, _, ratio, _, *above = line.split()
            times = [10_000 + int(each, 36) for each in above]
            found.append(TimeSeries(test=test, load=load, ratio=float(ratio), times=times))
    return found


def replay(series: Sequence[TimeSeries], comparisons: int, seed: int) -> list[Tally]:
    """Compare equal programs so often, by series and places that the seed chooses, and all planted slowdowns."""
    equal = [(each, at) for each in series if each.ratio == 1 for at in range(len(each.times))]
    chosen = random.Random(seed).sample(equal, min(comparisons, len(equal)))
    planted = [(each, at) for each in series if each.ratio != 1 for at in range(0, len(each.times), 2)]
    tallies: dict[tuple[str, bool], Tally] = {}
    for each, start in (*chosen, *planted):
        is_equal = each.ratio == 1
        ratio = 1.0 if is_equal else round(each.ratio, 2)
        tally = tallies.setdefault((each.load, is_equal), Tally(load=each.load, ratio=ratio))
        expected = "" if is_equal else ("slower", "faster")[start // 2 % 2]
        most = MOST_PAIRS if is_equal else 2 * WITHIN
        first = first_decision(each.sampler(start), most)
        _count(tally, first, expected)
        if first.word in _ALARMS:
            confirmed = measure(each.sampler(start), budget_pairs=most, comparisons=SUITE if is_equal else 1)
            tally.confirmed += confirmed.word in _ALARMS
    order = {each.load: number for number, each in enumerate(series)}
    return sorted(tallies.values(), key=lambda tally: (tally.ratio, order[tally.load]))


def _count(tally: Tally, decision: Decision, expected: str) -> None:
    tally.words[decision.word] += 1
    tally.pairs += decision.pairs
    tally.found += decision.word == expected
    tally.false += decision.word in _ALARMS and decision.word != expected


def compare_live(
    session: Session, programs: Sequence[Timed], count: int, limits: Limits, progress: Callable[[int], None]
) -> Tally:
    """Compare programs with themselves so often, now, while another process computes; alarms are confirmed ones."""
    tally = Tally(load="live", ratio=1.0)

    def samples(wanted: Mapping[int, int]) -> Mapping[int, Pairs | str]:
        progress(len(wanted))
        asked = {}
        for at, pairs in wanted.items():
            program = programs[at % len(programs)]
            asked[at] = WantedSamples(first=program, second=program, pairs=pairs)
        return sample_all(session, asked, limits)

    busy = subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"])
    try:
        decisions = measure_all(samples, range(count))
    finally:
        busy.kill()
        busy.wait()
    for decision in decisions.values():
        if isinstance(decision, str):
            raise InfrastructureError(f"a kernel cannot be timed here: {decision}")
        _count(tally, decision, "")
    tally.confirmed = tally.false
    return tally


def audit_document(tallies: Sequence[Tally], seed: int) -> CostAudit:
    """Return the results, with what must hold."""
    equal = [tally for tally in tallies if tally.ratio == 1]
    planted = [tally for tally in tallies if tally.ratio != 1]
    replayed = [tally for tally in equal if tally.load != "live"]
    total = sum(tally.words.total() for tally in replayed)
    false = sum(tally.false for tally in replayed)
    quiet = [tally for tally in planted if tally.load.startswith(_QUIET)]
    found, tried = sum(tally.found for tally in quiet), sum(tally.words.total() for tally in quiet)
    confirmed = sum(tally.confirmed for tally in equal)
    same = sum(tally.words["same"] for tally in planted)
    return {
        "schema": "mlir-matrix/cost-audit/v1",
        "seed": seed,
        "comparisons": [tally.to_json() for tally in tallies],
        "summary": {
            "equal": total, "false": false, "false_at_most": wilson(false, total)[1], "confirmed_false": confirmed,
            "planted_quiet": tried, "found_quiet": found, "found_at_least": wilson(found, tried)[0], "planted_same": same,
            "holds": false <= MOST_FALSE * total and confirmed == 0 and found >= LEAST_FOUND * tried and same == 0,
        },
    }  # fmt: skip
