import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def reference(x: Array) -> Array:
    # (1 + tanh(z)) / 2 = 1 / (1 + exp(-2z)), which does not cancel in the left tail.
    z = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    return np.asarray(x / (1 + np.exp(-2 * z)))


def forward_error(roundoff: float, x: Array) -> Array:
    # Programs compute x/2 * (1 + tanh(z)): on the left the sum cancels and leaves what tanh errs by, up to 5 ulp. The
    # cube in z may be a call of pow, 16 ulp. Both forms pass on an error of z by x/2 * (1 - tanh(z)**2).
    root = np.sqrt(2 / np.pi)
    cubic = 0.044715 * np.abs(x) ** 3
    z = root * (np.abs(x) + cubic)
    z_error = 4 * roundoff * z + root * 34 * roundoff * cubic
    inside = 10 * roundoff * np.tanh(z) + np.cosh(z) ** -2 * z_error
    return np.asarray(np.abs(x) / 2 * inside + 12 * roundoff * np.abs(reference(x)))
