import jax.numpy as jnp
from jax import Array


def workload(i: Array, w: Array) -> Array:
    return jnp.take(w, i, axis=0).sum(axis=1)
