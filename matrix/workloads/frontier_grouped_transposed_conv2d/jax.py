from jax import Array, lax


def workload(x: Array, w: Array) -> Array:
    groups = w.reshape(2, 2, 3, 3, 2).transpose(0, 2, 1, 3, 4).reshape(6, 2, 3, 2)
    return lax.conv_general_dilated(
        x,
        lax.rev(groups, (2, 3)),
        window_strides=(1, 1),
        padding=((3, 3), (0, 0)),
        lhs_dilation=(2, 3),
        rhs_dilation=(2, 1),
        feature_group_count=2,
    )
