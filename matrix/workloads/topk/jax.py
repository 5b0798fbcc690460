import jax
from jax import Array


def workload(x: Array) -> tuple[Array, Array]:
    values, indices = jax.lax.top_k(x, 10)
    return values, indices
