import torch
from torch import Tensor


def workload(x: Tensor, lengths: Tensor) -> Tensor:
    inside = torch.arange(x.shape[1]) < lengths[:, None]
    return torch.where(inside[:, :, None], x, 0.0).sum(dim=1) / lengths[:, None]
