import tensorflow as tf
from tensorflow import Tensor


def workload(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    images, filters = tf.transpose(x, [0, 2, 3, 1]), tf.transpose(w, [2, 3, 1, 0])
    y = tf.nn.conv2d(images, filters, strides=2, padding=[[0, 0], [1, 1], [1, 1], [0, 0]]) + b
    return tf.transpose(y, [0, 3, 1, 2])
