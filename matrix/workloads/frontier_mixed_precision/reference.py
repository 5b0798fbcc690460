import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference(x: Array, w1: Array, w2: Array) -> Array:
    return x @ w1 @ w2


def forward_error(roundoff: float, x: Array, w1: Array, w2: Array) -> Array:
    between = np.abs(x @ w1) * 2.0**-8 + len(w1) * roundoff * (np.abs(x) @ np.abs(w1))
    return between @ np.abs(w2) + len(w2) * roundoff * ((np.abs(x @ w1) + between) @ np.abs(w2))
