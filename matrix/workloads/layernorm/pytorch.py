import torch.nn.functional as F
from torch import Tensor


def workload(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, w.shape, w, b, eps=1e-5)
