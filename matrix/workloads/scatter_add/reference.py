import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int32]


def reference(x: Array, i: Indices, u: Array) -> Array:
    y = x.copy()
    for (n, e), row in np.ndenumerate(i):
        y[row, e] += u[n, e]
    return y
