import triton
import triton.language as tl


@triton.jit
def workload(x, w, y, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for begin in range(0, K, DEPTH):
        down, across = begin + tl.arange(0, DEPTH)[:, None], begin + tl.arange(0, DEPTH)[None, :]
        left = tl.load(x + rows * K + across, mask=(rows < M) & (across < K), other=0.0)
        right = tl.load(w + down * N + columns, mask=(down < K) & (columns < N), other=0.0)
        total += tl.dot(left, right, input_precision="ieee")
    tl.store(y + rows * N + columns, total, mask=(rows < M) & (columns < N))


def launch(M, K, N):
    block = 32
    return (triton.cdiv(M, block), triton.cdiv(N, block)), {"M": M, "K": K, "N": N, "BLOCK": block, "DEPTH": 32}
