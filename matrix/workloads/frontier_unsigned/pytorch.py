import torch
from torch import Tensor


def workload(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    wide = x.to(torch.uint32)
    return y // wide, z % y.to(torch.uint64), x >> 3, torch.maximum(y, wide << 16), y.to(torch.float32)
