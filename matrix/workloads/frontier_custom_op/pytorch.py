import torch
from torch import Tensor


@torch.library.custom_op("frontier::quick_gelu", mutates_args=())
def quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.7 * x)


@quick_gelu.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def workload(x: Tensor) -> Tensor:
    return quick_gelu(x)
