import jax.numpy as jnp
from jax import Array


def workload(x: Array) -> tuple[Array, Array]:
    (places,) = jnp.nonzero(x, size=x.shape[0], fill_value=-1)
    return places, jnp.count_nonzero(x).reshape(1)
