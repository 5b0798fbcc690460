import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray


def reference(x: NDArray[np.float64]) -> NDArray[np.float64]:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    return windows.max(axis=(-2, -1))
