import torch
from torch import Tensor


def workload(pos: Tensor, crd: Tensor, val: Tensor, x: Tensor) -> Tensor:
    return torch.sparse_csr_tensor(pos, crd, val, (len(pos) - 1, len(x))) @ x
