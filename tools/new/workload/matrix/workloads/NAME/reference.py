import numpy as np
from numpy.typing import NDArray


def reference(x: NDArray[np.float64]) -> NDArray[np.float64]:
    # In float64, whatever the dtypes of the workload.
    return 2 * x
