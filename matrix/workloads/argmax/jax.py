import jax.numpy as jnp
from jax import Array


def workload(x: Array) -> Array:
    return jnp.argmax(x, axis=-1)
