import jax.numpy as jnp
from jax import Array


def workload(x: Array) -> tuple[Array, Array]:
    values = jnp.unique(x, size=x.shape[0], fill_value=-99)
    return values, jnp.count_nonzero(values != -99).reshape(1)
