import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int32]


def reference(i: Indices, offsets: Indices, w: Array) -> Array:
    return np.stack([w[bag].sum(axis=0) for bag in np.split(i, offsets[1:])])
