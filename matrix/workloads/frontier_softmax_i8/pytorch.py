import torch
from torch import Tensor


def workload(x: Tensor) -> Tensor:
    y = torch.softmax(x.float() / 16, dim=-1)
    return torch.clamp(torch.round(y * 256) - 128, -128, 127).to(torch.int8)
