import jax.numpy as jnp
from jax import Array, lax


def workload(x: Array) -> Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))
