import jax.numpy as jnp
from jax import Array


def workload(x: Array) -> Array:
    return jnp.cumsum(x * x, axis=-1)
