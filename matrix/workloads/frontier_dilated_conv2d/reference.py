import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference(x: Array, w: Array) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (5, 4), axis=(2, 3))[..., ::2, ::3]
    y: Array = np.einsum("nchwij,fcij->nfhw", windows, w)
    return y
