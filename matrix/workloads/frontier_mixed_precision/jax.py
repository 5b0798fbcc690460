import jax
import jax.numpy as jnp


def workload(x: jax.Array, w1: jax.Array, w2: jax.Array) -> jax.Array:
    hidden = jnp.matmul(x, w1, preferred_element_type=jnp.float32).astype(jnp.bfloat16)
    return jnp.matmul(hidden, w2, preferred_element_type=jnp.float32)
