from jax import Array, lax


def workload(x: Array, w: Array) -> Array:
    filters = lax.rev(lax.transpose(w, (1, 0, 2, 3)), (2, 3))
    return lax.conv_general_dilated(x, filters, window_strides=(1, 1), padding=((1, 1), (1, 1)), lhs_dilation=(2, 2))
