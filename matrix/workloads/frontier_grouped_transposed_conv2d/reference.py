import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference(x: Array, w: Array) -> Array:
    (n, _, h, v), (_, f, kh, kw) = x.shape, w.shape
    groups = []
    for images, filters in zip(np.split(x, 2, axis=1), np.split(w, 2), strict=True):
        y = np.zeros((n, f, 2 * (h - 1) + 2 * (kh - 1) + 1, 3 * (v - 1) + kw))
        for i in range(kh):
            for j in range(kw):
                rows, columns = slice(2 * i, 2 * i + 2 * h - 1, 2), slice(j, j + 3 * v - 2, 3)
                y[:, :, rows, columns] += np.einsum("nchv,cf->nfhv", images, filters[:, :, i, j])
        groups.append(y[:, :, 1:-1, 1:-1])
    return np.concatenate(groups, axis=1)


def forward_error(roundoff: float, x: Array, w: Array) -> Array:
    # A pixel is a sum over the channels of a group and at most three places of the filter.
    return 3 * len(w) / 2 * roundoff * reference(np.abs(x), np.abs(w))
