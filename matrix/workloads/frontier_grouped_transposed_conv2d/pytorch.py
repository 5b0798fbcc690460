import torch.nn.functional as F
from torch import Tensor


def workload(x: Tensor, w: Tensor) -> Tensor:
    return F.conv_transpose2d(x, w, stride=(2, 3), padding=1, groups=2, dilation=(2, 1))
