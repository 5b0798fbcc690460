import torch
from torch import Tensor


def workload(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    hidden = torch.matmul(x.float(), w1.float()).bfloat16()
    return torch.matmul(hidden.float(), w2.float())
