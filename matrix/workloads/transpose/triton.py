import triton
import triton.language as tl


@triton.jit
def workload(x, y, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr):
    m, n = tl.arange(0, BLOCK)[:, None], tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    batch, inside = tl.program_id(0), (m < M) & (n < N)
    tl.store(y + (n * B + batch) * M + m, tl.load(x + (batch * M + m) * N + n, mask=inside), mask=inside)


def launch(B, M, N):
    block = triton.next_power_of_2(M)
    return (B, triton.cdiv(N, block)), {"B": B, "M": M, "N": N, "BLOCK": block}
