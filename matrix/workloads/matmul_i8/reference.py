import numpy as np
from numpy.typing import NDArray


def reference(x: NDArray[np.int8], w: NDArray[np.int8]) -> NDArray[np.int32]:
    return x.astype(np.int32) @ w.astype(np.int32)
