import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference(x: Array) -> Array:
    # erfc keeps the left tail, where 1 + erf would cancel.
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    return np.asarray(0.5 * x * erfc(-x / math.sqrt(2.0)))


def forward_error(roundoff: float, x: Array) -> Array:
    # Programs compute x/2 * (1 + erf(x/sqrt 2)): on the left the sum cancels and leaves what erf errs by, up to 16 ulp.
    erf = np.vectorize(math.erf, otypes=[np.float64])
    z = np.abs(x) / math.sqrt(2.0)
    slope = 2.0 / math.sqrt(math.pi) * np.exp(-(z**2))
    inside = 32 * roundoff * erf(z) + slope * 3 * roundoff * z
    return np.asarray(np.abs(x) / 2 * inside + 36 * roundoff * np.abs(reference(x)))
