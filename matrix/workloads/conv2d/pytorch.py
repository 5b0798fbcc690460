import torch.nn.functional as F
from torch import Tensor


def workload(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.conv2d(x, w, b, stride=2, padding=1)
