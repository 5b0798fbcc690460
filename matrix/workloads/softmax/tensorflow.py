import tensorflow as tf
from tensorflow import Tensor


def workload(x: Tensor) -> Tensor:
    return tf.nn.softmax(x, axis=-1)
