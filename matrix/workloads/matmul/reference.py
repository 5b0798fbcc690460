import numpy as np
from numpy.typing import NDArray


def reference(x: NDArray[np.float64], w: NDArray[np.float64]) -> NDArray[np.float64]:
    return x @ w
