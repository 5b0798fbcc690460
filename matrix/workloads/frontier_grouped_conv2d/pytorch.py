import torch.nn.functional as F
from torch import Tensor


def workload(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, groups=3)
