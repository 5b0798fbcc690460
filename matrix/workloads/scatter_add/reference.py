import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int32]


def reference(x: Array, i: Indices, u: Array) -> Array:
    y = x.copy()
    for (n, e), row in np.ndenumerate(i):
        y[row, e] += u[n, e]
    return y


def forward_error(roundoff: float, x: Array, i: Indices, u: Array) -> Array:
    # Updates may come in any order: each that comes to an element costs one rounding of all that comes there.
    sizes, counts = np.abs(x), np.zeros_like(x)
    for (n, e), row in np.ndenumerate(i):
        sizes[row, e] += abs(u[n, e])
        counts[row, e] += 1
    return counts * roundoff * sizes
