import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference(x: Array, w: Array, b: Array) -> Array:
    groups = x.reshape(x.shape[0], 3, -1)
    centred = groups - groups.mean(axis=-1, keepdims=True)
    normal = centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)
    return normal.reshape(x.shape) * w[:, None, None] + b[:, None, None]
