import jax
import jax.numpy as jnp


def workload(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.einsum("bmk,bkn->bmn", x, w)
