"""The strategy of git_bayesect 1.2, from its description: a Bayesian search for the change of a failure rate.

The rates before and after the change are both unknown, with uniform distributions. The next commit to test is that with the
smallest expected entropy; the search ends when one commit has a probability of 0.95.
"""

from __future__ import annotations

import numpy
import numpy.typing

Array = numpy.typing.NDArray[numpy.float64]
Counts = numpy.typing.NDArray[numpy.int64]

#: Logarithms of factorials.
_FACTORIALS = numpy.concatenate([[0.0], numpy.cumsum(numpy.log(numpy.arange(1, 40_000)))])
#: Where a search is given up.
MOST = 4_000


class Bayesect:
    """A search in a line: commit 0 is the old one, the change is in one of the others.

    Commits between neighbouring tested ones are equally likely, so they are kept as one block.
    """

    def __init__(self, commits: int) -> None:
        self.starts = numpy.array([0, 1])
        self.stops = numpy.array([1, commits])
        #: Failures and successes of a block's commits and later ones, and of all.
        self.failures = numpy.zeros(2, numpy.int64)
        self.passes = numpy.zeros(2, numpy.int64)
        self.all_failures = self.all_passes = 0

    def observe(self, commit: int, failed: bool) -> None:
        """Take the outcome of a test."""
        block = int(numpy.searchsorted(self.stops, commit, side="right"))
        if self.stops[block] != commit + 1:
            self.starts = numpy.insert(self.starts, block + 1, commit + 1)
            self.stops = numpy.insert(self.stops, block, commit + 1)
            self.failures = numpy.insert(self.failures, block, self.failures[block])
            self.passes = numpy.insert(self.passes, block, self.passes[block])
        (self.failures if failed else self.passes)[: block + 1] += 1
        self.all_failures += failed
        self.all_passes += not failed

    def step(self) -> tuple[bool, int]:
        """Return whether the search is done, and the commit that is the answer or is to be tested."""
        early = self.all_failures - self.failures, self.all_passes - self.passes
        logs = _log_beta(self.failures, self.passes) + _log_beta(*early)
        size = self.stops - self.starts
        size[0] = 0
        each = numpy.exp(logs - logs.max())
        each /= (each * size).sum()
        likely = int(numpy.where(size, each, 0).argmax())
        if each[likely] >= 0.95 or self.all_failures + self.all_passes >= MOST:
            return True, int(self.starts[likely])
        after = (self.failures + 1) / (self.failures + self.passes + 2)
        before = (early[0] + 1) / (early[0] + early[1] + 2)
        return False, self._best(each, size, after, before)

    def _best(self, each: Array, size: Counts, after: Array, before: Array) -> int:
        """Return the commit of which a test is expected to leave the smallest entropy.

        That is the largest entropy of the outcome less that which the outcome has for a known change. In a block, this is a
        concave function of the number of commits up to the tested one.
        """
        share, entropy_after, entropy_before = each * size, _entropy(after), _entropy(before)

        def at_start(late: Array, early: Array) -> Array:
            late, early = share * late, share * early
            return numpy.cumsum(late) - late + numpy.cumsum(early[::-1])[::-1]

        failing, entropy = at_start(after, before), at_start(entropy_after, entropy_before)
        slope = after - before
        slope = numpy.where(numpy.abs(slope) < 1e-9, 1e-9, slope)
        best = 1 / (1 + numpy.exp2(numpy.clip((entropy_after - entropy_before) / slope, -900, 900)))
        wanted = (best - failing) / slope / each
        found = (-1.0, 0)
        for rounded in (numpy.floor(wanted), numpy.ceil(wanted)):
            count = numpy.clip(rounded, numpy.minimum(size, 1), size)
            gain = _entropy(failing + count * each * slope) - entropy - count * each * (entropy_after - entropy_before)
            block = int(gain.argmax())
            found = max(found, (float(gain[block]), int(self.starts[block] + max(count[block], 1) - 1)))
        return found[1]


def _log_beta(failures: Counts, passes: Counts) -> Array:
    found: Array = _FACTORIALS[failures] + _FACTORIALS[passes] - _FACTORIALS[failures + passes + 1]
    return found


def _entropy(probability: Array) -> Array:
    inside = numpy.clip(probability, 1e-300, 1 - 1e-16)
    found: Array = -inside * numpy.log2(inside) - (1 - inside) * numpy.log2(1 - inside)
    return found
