import torch.nn.functional as F
from torch import Tensor


def workload(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, kernel_size=3, stride=2)
