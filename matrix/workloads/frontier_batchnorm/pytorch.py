import torch.nn.functional as F
from torch import Tensor


def workload(x: Tensor, mean: Tensor, variance: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.batch_norm(x, mean, variance, w, b, training=False, eps=1e-5)
