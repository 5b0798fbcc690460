import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference(x: Array) -> tuple[Array, Array]:
    q, r = np.linalg.qr(x)
    signs = np.sign(np.diagonal(r))
    return q * signs, r * signs[:, None]


def forward_error(roundoff: float, x: Array) -> tuple[Array, Array]:
    # Householder's factors are those of a matrix within M N^1.5 roundings (Higham, Accuracy and Stability of Numerical
    # Algorithms, theorem 19.4), and factors move by sqrt(2) times its condition (Sun, 1991).
    rows, columns = x.shape
    moved = np.sqrt(2) * rows * columns**1.5 * roundoff * np.linalg.cond(x)
    return np.full(x.shape, moved), np.full((columns, columns), moved * np.linalg.norm(x, 2))
