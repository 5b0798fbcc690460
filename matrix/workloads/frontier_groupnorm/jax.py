import jax.numpy as jnp
from jax import Array


def workload(x: Array, w: Array, b: Array) -> Array:
    groups = x.reshape(x.shape[0], 3, -1)
    mean, variance = groups.mean(axis=-1, keepdims=True), groups.var(axis=-1, keepdims=True)
    normal = (groups - mean) / jnp.sqrt(variance + 1e-5)
    return normal.reshape(x.shape) * w[:, None, None] + b[:, None, None]
