import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference(x: Array, mean: Array, variance: Array, w: Array, b: Array) -> Array:
    centred = x - mean[:, None, None]
    return centred / np.sqrt(variance + 1e-5)[:, None, None] * w[:, None, None] + b[:, None, None]


def forward_error(roundoff: float, x: Array, mean: Array, variance: Array, w: Array, b: Array) -> Array:
    # Also as one product and one sum, with w / sqrt(variance) and b - mean * w / sqrt(variance) computed before.
    scale = (w / np.sqrt(variance + 1e-5))[:, None, None]
    return 8 * roundoff * (scale * (np.abs(x) + np.abs(mean)[:, None, None]) + np.abs(b)[:, None, None])
