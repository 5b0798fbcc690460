import torch.nn.functional as F
from torch import Tensor


def workload(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.group_norm(x, 3, w, b, eps=1e-5)
