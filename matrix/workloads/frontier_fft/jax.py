import jax.numpy as jnp
from jax import Array


def workload(x: Array) -> tuple[Array, Array]:
    y = jnp.fft.rfft(x)
    return jnp.real(y), jnp.imag(y)
