import tensorflow as tf
from tensorflow import Tensor


def workload(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    d = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(d * d, axis=-1, keepdims=True)
    return d * tf.math.rsqrt(variance + 1e-5) * w + b
