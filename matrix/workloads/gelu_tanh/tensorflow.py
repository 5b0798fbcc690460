import tensorflow as tf
from tensorflow import Tensor


def workload(x: Tensor) -> Tensor:
    return tf.nn.gelu(x, approximate=True)
