import numpy as np
from numpy.typing import NDArray

Shorts = NDArray[np.uint16]
Words = NDArray[np.uint32]
Longs = NDArray[np.uint64]
Array = NDArray[np.float64]


def reference(x: Shorts, y: Words, z: Longs) -> tuple[Words, Longs, Shorts, Words, Array]:
    wide = x.astype(np.uint32)
    return y // wide, z % y.astype(np.uint64), x >> np.uint16(3), np.maximum(y, wide << np.uint32(16)), y.astype(np.float64)
