import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int32]


def reference(pos: Integers, crd: Integers, val: Array, x: Array) -> Array:
    rows = zip(pos[:-1], pos[1:], strict=True)
    return np.stack([np.sum(val[begin:end, None] * x[crd[begin:end]], axis=0) for begin, end in rows])
