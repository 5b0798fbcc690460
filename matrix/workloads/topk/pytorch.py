import torch
from torch import Tensor


def workload(x: Tensor) -> tuple[Tensor, Tensor]:
    values, indices = torch.topk(x, 10)
    return values, indices.to(torch.int32)
