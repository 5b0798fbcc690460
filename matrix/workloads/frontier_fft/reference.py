import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference(x: Array) -> tuple[Array, Array]:
    n = x.shape[-1]
    angles = 2 * np.pi * (np.outer(np.arange(n), np.arange(n // 2 + 1)) % n) / n
    return x @ np.cos(angles), -(x @ np.sin(angles))


def forward_error(roundoff: float, x: Array) -> tuple[Array, Array]:
    # As a plain sum of N products: each factor is off by the rounding of an angle of up to 2 pi, and of its function.
    bound = (x.shape[-1] + 16) * roundoff * np.abs(x).sum(axis=-1, keepdims=True) * np.ones(x.shape[-1] // 2 + 1)
    return bound, bound
