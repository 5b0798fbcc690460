from jax import Array
from jax.experimental import sparse


def workload(pos: Array, crd: Array, val: Array, x: Array) -> Array:
    result: Array = sparse.BCSR((val, crd, pos), shape=(len(pos) - 1, len(x))) @ x
    return result
