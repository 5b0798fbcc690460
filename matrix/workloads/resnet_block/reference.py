import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float64]


def conv_norm(x: Array, w: Array, scale: Array, shift: Array) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, w.shape[2:], axis=(2, 3))
    y: Array = np.einsum("nchwij,fcij->nfhw", windows, w)
    return y * scale[:, None, None] + shift[:, None, None]


def reference(x: Array, w1: Array, scale1: Array, shift1: Array, w2: Array, scale2: Array, shift2: Array) -> Array:
    hidden = np.maximum(conv_norm(x, w1, scale1, shift1), 0.0)
    return np.maximum(conv_norm(hidden, w2, scale2, shift2) + x, 0.0)
