import torch
from torch import Tensor


def workload(x: Tensor) -> Tensor:
    return torch.flip(x, [-1])
