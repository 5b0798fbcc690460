from jax import Array, lax


def workload(x: Array) -> Array:
    return lax.reduce_window(x, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 2, 2), "VALID") / 9.0
