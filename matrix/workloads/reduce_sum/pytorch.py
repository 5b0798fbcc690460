import torch
from torch import Tensor


def workload(x: Tensor) -> Tensor:
    return torch.sum(x, dim=-1)
