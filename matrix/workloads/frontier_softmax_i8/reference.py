import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.int8]


def reference(x: Bytes) -> Bytes:
    logits = x.astype(np.float64) / 16
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)
    return np.clip(np.rint(y * 256) - 128, -128, 127).astype(np.int8)
