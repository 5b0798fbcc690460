import torch
from torch import Tensor


def workload(x: Tensor) -> tuple[Tensor, Tensor]:
    places = torch.nonzero_static(x, size=x.shape[0], fill_value=-1).flatten()
    return places.to(torch.int32), torch.count_nonzero(x).reshape(1).to(torch.int32)
