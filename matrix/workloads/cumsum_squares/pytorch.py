import torch
from torch import Tensor


def workload(x: Tensor) -> Tensor:
    return torch.cumsum(x * x, dim=-1)
