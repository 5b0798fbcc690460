import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference(x: Array) -> Array:
    return x / (1 + np.exp(-1.7 * x))
