import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference(x: Array, w: Array) -> Array:
    return np.array([[math.fsum(row * column) for column in w.T] for row in x])


def forward_error(roundoff: float, x: Array, w: Array) -> Array:
    # One more for the reference's own rounding of each product.
    return (len(w) + 1) * roundoff * (np.abs(x) @ np.abs(w))
