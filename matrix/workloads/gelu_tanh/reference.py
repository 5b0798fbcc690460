import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference(x: Array) -> Array:
    # (1 + tanh(z)) / 2 = 1 / (1 + exp(-2z)), which does not cancel in the left tail.
    z = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    return np.asarray(x / (1 + np.exp(-2 * z)))
