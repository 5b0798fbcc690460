import jax
from jax import Array


def workload(x: Array) -> Array:
    result: Array = jax.ffi.ffi_call("frontier_quick_gelu", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    return result
