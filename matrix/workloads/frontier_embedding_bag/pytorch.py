import torch.nn.functional as F
from torch import Tensor


def workload(i: Tensor, w: Tensor) -> Tensor:
    return F.embedding_bag(i, w, mode="sum")
