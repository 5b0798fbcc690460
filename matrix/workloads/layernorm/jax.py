import jax
import jax.numpy as jnp
from jax import Array


def workload(x: Array, w: Array, b: Array) -> Array:
    d = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(d * d, axis=-1, keepdims=True)
    return d * jax.lax.rsqrt(variance + 1e-5) * w + b
