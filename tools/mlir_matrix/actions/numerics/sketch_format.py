"""What a sketch detects and what it misses: the arithmetic of :mod:`sketch`, with proofs.

A block has n <= 4096 elements, expected e and actual a, d = a - e. Element i may be off by b_i = atol + rtol abs(e_i), so that
by the triangle inequality norm(b) <= B = atol sqrt(n) + rtol norm(e), all norms Euclidean. A projection is r.d for random
signs r_i, each as likely as the other and independent of the errors: they are fixed before any program is compiled.

*False alarms.* Where every element is within its bound, Hoeffding's inequality gives P(abs(r.d) > 8 B) <= 2 exp(-32), that is
2.5e-14 for each projection. Norms and elements that are kept are never off without reason: abs(norm(a) - norm(e)) <= norm(d).

*One wrong element.* If one element is off by delta and the others are right, r.d is delta or -delta plus something that is as
likely positive as negative, so that abs(r.d) >= abs(delta) in each projection with a probability of at least 1/2: where delta
is more than 8 B, all of 32 projections miss it with at most 2**-32. Where the others are exact abs(r.d) = abs(delta): it is
always seen. What is smaller is seen where it is kept: 8 of 4096.

*Errors all over.* Let norm(d) >= k B with k > 8, and Z = (r.d)**2. Then E Z = norm(d)**2 and E Z**2 <= 3 norm(d)**4. Paley and
Zygmund: P(Z > t E Z) >= (1 - t)**2 (E Z)**2 / E Z**2 >= (1 - t)**2 / 3. With t = (8 / k)**2 a projection shows it with at least
p = (1 - t)**2 / 3, and all of 32 miss it with at most (1 - p)**32: 1.3e-3 for k = 16, 1.6e-5 for k = 32, never less than
2.3e-6 by this proof. Where many elements are off alike projections are nearly normal, and it is 5e-14 for k = 16.

*Equal or not.* Where elements must be equal, and for NaN and infinities, hashes of 53 bits decide: 1e-16.
"""

from __future__ import annotations

import math

#: Elements that are summed up together, projections of each block, elements of it that are kept.
BLOCK, PROJECTIONS, SAMPLES = 4096, 32, 8
#: How many times the norm of its bounds a projection may be off.
FACTOR = 8.0


def false_alarm(projections: int = 1) -> float:
    """Bound the probability that any of these projections exceeds its bound although all elements are within theirs."""
    return min(1.0, 2 * math.exp(-(FACTOR**2) / 2) * projections)


def missed(k: float, projections: int = PROJECTIONS) -> float:
    """Bound the probability of missing a block whose errors have at least ``k`` times the norm of their bounds."""
    if k <= FACTOR:
        return 1.0
    return float((1 - (1 - (FACTOR / k) ** 2) ** 2 / 3) ** projections)


def missed_alone(projections: int = PROJECTIONS) -> float:
    """Bound the probability of missing one element that is off by more than ``FACTOR`` times that norm."""
    return 2.0**-projections
