import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference(x: Array, w: Array) -> Array:
    (n, _, h, v), (_, f, kh, kw) = x.shape, w.shape
    y = np.zeros((n, f, 2 * h + 1, 2 * v + 1))
    for i in range(kh):
        for j in range(kw):
            y[:, :, i : i + 2 * h : 2, j : j + 2 * v : 2] += np.einsum("nchv,cf->nfhv", x, w[:, :, i, j])
    return y[:, :, 1:-1, 1:-1]


def forward_error(roundoff: float, x: Array, w: Array) -> Array:
    # A pixel is a sum over the channels and at most four places of the filter.
    return 4 * len(w) * roundoff * reference(np.abs(x), np.abs(w))
