import torch.nn.functional as F
from torch import Tensor


def workload(x: Tensor) -> Tensor:
    return F.softmax(x, dim=-1)
