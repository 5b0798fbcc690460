"""How often a bad point shows «bad», and what follows from observations. A good point never does."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, inf, lgamma, log, log2

from mlir_matrix.base.errors import UsageError


@dataclass(frozen=True)
class Rates:
    """The rates at which points show «bad».

    A bad point always shows it with the probability ``deterministic``; else at an unknown rate with a Beta distribution, by
    default one of which a third is below 0.01: if low rates were less likely, searches would often end too early at them.
    """

    deterministic: float = 0.999
    alpha: float = 0.25
    beta: float = 1.0
    _outlooks: dict[tuple[int, int], tuple[float, float, float]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if not (0 <= self.deterministic <= 1 and self.alpha > 0 and self.beta > 0):
            raise UsageError(f"{self}: expected probabilities; alpha and beta above 0")

    def outlook(self, bad: int, good: int) -> tuple[float, float, float]:
        """Return what observations of bad points make of a further one.

        These are the logarithm of the probability of the observations, that of «bad» in a further one, and its entropy.
        """
        found = self._outlooks.get((bad, good))
        if not found:
            likelihood = self._log_likelihood(bad, good)
            rate = exp(self._log_likelihood(bad + 1, good) - likelihood) if likelihood > -inf else 0.0
            found = self._outlooks[bad, good] = likelihood, rate, entropy_of(rate)
        return found

    def _log_likelihood(self, bad: int, good: int) -> float:
        a, b = self.alpha, self.beta
        unknown = -inf
        if self.deterministic < 1:
            unknown = log(1 - self.deterministic) + lgamma(a + bad) + lgamma(b + good) - lgamma(a + b + bad + good)
            unknown += lgamma(a + b) - lgamma(a) - lgamma(b)
        return unknown if good or not self.deterministic else log(self.deterministic + exp(unknown))


FLAKY = Rates(deterministic=0.0)


def entropy_of(probability: float) -> float:
    """Return the entropy of a verdict in bits."""
    if not 0 < probability < 1:
        return 0.0
    return -probability * log2(probability) - (1 - probability) * log2(1 - probability)
