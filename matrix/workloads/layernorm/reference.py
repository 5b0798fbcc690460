import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference(x: Array, w: Array, b: Array) -> Array:
    d = x - x.mean(axis=-1, keepdims=True)
    variance = (d * d).mean(axis=-1, keepdims=True)
    return np.asarray(d / np.sqrt(variance + 1e-5) * w + b)
