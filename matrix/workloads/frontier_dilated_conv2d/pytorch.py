import torch.nn.functional as F
from torch import Tensor


def workload(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, padding=1, dilation=(2, 3))
