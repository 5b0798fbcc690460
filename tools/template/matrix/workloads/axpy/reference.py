import numpy as np
from numpy.typing import NDArray


def reference(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    return 2.5 * x + y
