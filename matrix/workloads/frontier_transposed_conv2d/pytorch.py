import torch.nn.functional as F
from torch import Tensor


def workload(x: Tensor, w: Tensor) -> Tensor:
    return F.conv_transpose2d(x, w, stride=2, padding=1)
