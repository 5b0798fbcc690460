import torch
from torch import Tensor


def workload(x: Tensor) -> tuple[Tensor, Tensor]:
    # torch.unique has an output of a size that only it knows; here equal values are written to the same place.
    ordered, _ = torch.sort(x)
    new = torch.cat([torch.zeros(1, dtype=torch.bool), ordered[1:] != ordered[:-1]])
    places = torch.cumsum(new, dim=0)
    values = torch.full_like(x, -99).scatter(0, places, ordered)
    return values, (places[-1:] + 1).to(torch.int32)
