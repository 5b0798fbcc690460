import triton
import triton.language as tl


@triton.jit
def workload(x, y, K: tl.constexpr, BLOCK: tl.constexpr):
    partial = tl.zeros((BLOCK,), dtype=tl.float32)
    for begin in range(0, K, BLOCK):
        columns = begin + tl.arange(0, BLOCK)
        partial += tl.load(x + tl.program_id(0) * K + columns, mask=columns < K, other=0.0)
    tl.store(y + tl.program_id(0), tl.sum(partial, axis=0))


def launch(M, K):
    return (M,), {"K": K, "BLOCK": 1024}
