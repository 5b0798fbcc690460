import torch
from torch import Tensor


def workload(x: Tensor) -> Tensor:
    return torch.argmax(x, dim=-1).to(torch.int32)
