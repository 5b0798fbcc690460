import torch.nn.functional as F
from torch import Tensor

HEADS = 4


def workload(
    x: Tensor,
    ln1_w: Tensor,
    ln1_b: Tensor,
    qkv_w: Tensor,
    qkv_b: Tensor,
    out_w: Tensor,
    out_b: Tensor,
    ln2_w: Tensor,
    ln2_b: Tensor,
    up_w: Tensor,
    up_b: Tensor,
    down_w: Tensor,
    down_b: Tensor,
) -> Tensor:
    batch, length, width = x.shape
    qkv = F.layer_norm(x, (width,), ln1_w, ln1_b) @ qkv_w + qkv_b
    q, k, v = (t.view(batch, length, HEADS, -1).transpose(1, 2) for t in qkv.split(width, dim=-1))
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + mixed.transpose(1, 2).reshape(batch, length, width) @ out_w + out_b
    hidden = F.silu(F.layer_norm(x, (width,), ln2_w, ln2_b) @ up_w + up_b)
    return x + hidden @ down_w + down_b
