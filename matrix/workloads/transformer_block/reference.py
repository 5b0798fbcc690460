import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def norm(x: Array, w: Array, b: Array) -> Array:
    d = x - x.mean(axis=-1, keepdims=True)
    return np.asarray(d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5) * w + b)


def attend(q: Array, k: Array, v: Array) -> Array:
    """One head of one sequence, [S, D] each; position i sees positions 0 to i."""
    y = np.empty_like(v)
    for i in range(len(q)):
        scores = k[: i + 1] @ q[i] / np.sqrt(q.shape[1])
        weights = np.exp(scores - scores.max())
        y[i] = weights @ v[: i + 1] / weights.sum()
    return y


def silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def reference(
    x: Array,
    ln1_w: Array,
    ln1_b: Array,
    qkv_w: Array,
    qkv_b: Array,
    out_w: Array,
    out_b: Array,
    ln2_w: Array,
    ln2_b: Array,
    up_w: Array,
    up_b: Array,
    down_w: Array,
    down_b: Array,
) -> Array:
    qkv = norm(x, ln1_w, ln1_b) @ qkv_w + qkv_b
    mixed = np.empty_like(x)
    for n in range(len(x)):
        q, k, v = np.split(qkv[n], 3, axis=-1)
        for head in np.split(np.arange(x.shape[-1]), 4):
            mixed[n][:, head] = attend(q[:, head], k[:, head], v[:, head])
    x = x + mixed @ out_w + out_b
    return x + silu(norm(x, ln2_w, ln2_b) @ up_w + up_b) @ down_w + down_b
