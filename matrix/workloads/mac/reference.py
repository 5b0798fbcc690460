import numpy as np
from numpy.typing import NDArray


def reference(a: NDArray[np.int16], b: NDArray[np.int16]) -> NDArray[np.int32]:
    return np.asarray(np.sum(a.astype(np.int32) * b, dtype=np.int32))
