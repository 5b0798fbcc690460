from torch import Tensor


def workload(x: Tensor, b: Tensor) -> Tensor:
    return x + b
