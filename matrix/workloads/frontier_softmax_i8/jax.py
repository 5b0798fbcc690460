import jax
import jax.numpy as jnp
from jax import Array


def workload(x: Array) -> Array:
    y = jax.nn.softmax(x.astype(jnp.float32) / 16, axis=-1)
    return jnp.clip(jnp.round(y * 256) - 128, -128, 127).astype(jnp.int8)
