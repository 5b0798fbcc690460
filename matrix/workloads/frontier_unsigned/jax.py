import jax.numpy as jnp
from jax import Array


def workload(x: Array, y: Array, z: Array) -> tuple[Array, Array, Array, Array, Array]:
    wide = x.astype(jnp.uint32)
    return y // wide, z % y.astype(jnp.uint64), x >> 3, jnp.maximum(y, wide << 16), y.astype(jnp.float32)
