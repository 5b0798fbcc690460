import jax
from jax import Array


def workload(x: Array, mean: Array, variance: Array, w: Array, b: Array) -> Array:
    scale = w * jax.lax.rsqrt(variance + 1e-5)
    return (x - mean[:, None, None]) * scale[:, None, None] + b[:, None, None]
