import tensorflow as tf
from tensorflow import Tensor


def workload(x: Tensor) -> Tensor:
    return tf.argmax(x, axis=-1, output_type=tf.int32)
