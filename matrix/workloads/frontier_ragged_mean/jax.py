import jax.numpy as jnp
from jax import Array


def workload(x: Array, lengths: Array) -> Array:
    inside = jnp.arange(x.shape[1]) < lengths[:, None]
    return jnp.where(inside[:, :, None], x, 0.0).sum(axis=1) / lengths[:, None]
