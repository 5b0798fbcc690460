import torch.nn.functional as F
from torch import Tensor


def conv_norm(x: Tensor, w: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return F.conv2d(x, w, padding=1) * scale[:, None, None] + shift[:, None, None]


def workload(
    x: Tensor, w1: Tensor, scale1: Tensor, shift1: Tensor, w2: Tensor, scale2: Tensor, shift2: Tensor
) -> Tensor:
    hidden = F.relu(conv_norm(x, w1, scale1, shift1))
    return F.relu(conv_norm(hidden, w2, scale2, shift2) + x)
