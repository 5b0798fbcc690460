import numpy as np
from numpy.typing import NDArray


def reference(x: NDArray[np.int16]) -> NDArray[np.int32]:
    return np.convolve(x.astype(np.int32), np.array([3, -5, 7, 2], np.int32))[: len(x)]
