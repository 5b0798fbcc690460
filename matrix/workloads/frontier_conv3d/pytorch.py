import torch.nn.functional as F
from torch import Tensor


def workload(x: Tensor, w: Tensor) -> Tensor:
    return F.conv3d(x, w, padding=1)
