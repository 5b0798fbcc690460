import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray


def reference(x: NDArray[np.float64]) -> NDArray[np.float64]:
    windows = sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    return windows.mean(axis=(-2, -1))
