"""Draw model files: a module of two to six operations in one of three dtypes, from a seed.

An operation is an expression of ``{a}``, the newest value, and perhaps ``{b}``, any value of its shape. ``{p}`` is a layer or
parameter of its own, ``{n}`` the last size. Values keep sizes and remain near 1, so that any operation may follow.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

DTYPES = ("float32", "bfloat16", "float16")

#: For each kind of value: its shape, and operations that keep it.
ANY = (
    "torch.exp(-{a}.abs())",
    "torch.tanh({a})",
    "torch.sigmoid({a})",
    "F.gelu({a})",
    "F.gelu({a}, approximate='tanh')",
    "F.silu({a})",
    "F.softplus({a})",
    "F.elu({a})",
    "F.mish({a})",
    "F.hardswish({a})",
    "F.selu({a})",
    "F.logsigmoid({a})",
    "torch.erf({a})",
    "torch.sin({a})",
    "torch.cos({a})",
    "torch.atan({a})",
    "torch.sqrt({a}.abs())",
    "torch.sinh({a}.clamp(-2, 2))",
    "torch.rsqrt({a}.abs() + 0.1)",
    "torch.log1p({a}.abs())",
    "torch.expm1({a}.clamp(max=1))",
    "torch.log({a}.abs() + 0.5)",
    "torch.asinh({a})",
    "torch.erfc({a})",
    "torch.log2({a}.abs() + 1)",
    "torch.exp2({a}.clamp(-3, 2))",
    "torch.pow({a}.abs() + 0.1, 0.7)",
    "1 / (1 + {a} * {a})",
    "{a}.abs()",
    "1 - 2 * {a}",
    "torch.relu({a})",
    "{a}.clamp(-0.5, 0.75)",
    "{a}.pow(3) / 4",
    "{a} ** 2",
    "torch.where({a} > {b}, {a}, 0.5 * {b})",
    "torch.maximum({a}, {b})",
    "{a} * {b}",
    "{a} + {b}",
    "{a} - 0.3 * {b}",
    "{a} / (1 + {b}.abs())",
    "torch.lerp({a}, {b}, 0.3)",
    "torch.addcmul({a}, {a}, {b}, value=0.5)",
    "torch.hypot({a}, {b})",
    "torch.atan2({a}, 1 + {b}.abs())",
    "{a}.masked_fill({a} > 0.5, 0.1)",
    "F.leaky_relu({a}, 0.1)",
    "F.hardtanh({a})",
    "F.softshrink({a}, 0.2)",
    "torch.floor({a} * 4) / 4",
    "torch.frac({a})",
    "torch.remainder({a}, 0.7)",
    "F.threshold({a}, 0.1, 0.2)",
    "({a}.float() * 1.1).to({a}.dtype)",
    "torch.exp(-{a}.float().abs()).type_as({a})",
    "({a}.float() ** 2).to({b})",
    "{a} * torch.tensor([0.1], dtype={a}.dtype)",
    "{a} + {a}.new_tensor(0.3)",
    "{a} * torch.finfo({a}.dtype).eps + {b}",
    "{a} + torch.ones_like({b}) * 0.2",
    "{a} + torch.zeros({a}.shape, dtype={a}.dtype)",
    "{a}.to(torch.promote_types({a}.dtype, torch.bfloat16)).to({a}.dtype)",
    "{a} - {a}.mean()",
    "{a} / (1 + {a}.norm())",
    "{a} - {a}.mean(-1, keepdim=True)",
    "{a} + 0.1 * {a}.sum(-1, keepdim=True)",
    "{a} - {a}.amax(-1, keepdim=True)",
    "{a} - {a}.min(-1, keepdim=True).values",
    "{a} / (1 + {a}.var(-1, keepdim=True))",
    "{a} / (0.5 + {a}.std(-1, keepdim=True))",
    "{a} - torch.logsumexp({a}, -1, keepdim=True)",
    "F.softmax({a}, -1)",
    "F.log_softmax({a}, -1)",
    "F.softmax({a}, -1, dtype=torch.float32).to({a}.dtype)",
    "F.softmin({a}, -1)",
    "F.layer_norm({a}, ({n},))",
    "F.rms_norm({a}, ({n},))",
    "{a} * torch.rsqrt({a}.pow(2).mean(-1, keepdim=True) + 1e-6)",
    "({a}.float() * torch.rsqrt({a}.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to({a}.dtype)",
    "F.normalize({a}, dim=-1)",
    "{a}.cumsum(-1) / {n}",
    "{a}.clamp(-1, 1).cumprod(-1)",
    "torch.logcumsumexp({a}, -1)",
    "{a}.sort(-1).values",
    "{a}.cummax(-1).values",
    "{a} - {a}.median(-1, keepdim=True).values",
    "{a}.flip(-1)",
    "{a}.roll(1, -1)",
    "{a}.tril()",
    "{a} + {a}.topk(2, -1).values.sum(-1, keepdim=True)",
    "torch.cat([{a}[..., 1:], {b}[..., :1]], -1)",
    "F.glu(torch.cat([{a}, {b}], -1))",
    "{a} * F.cosine_similarity({a}, {b}, dim=-1).unsqueeze(-1)",
    "{a} * F.mse_loss({a}, {b})",
    "{a} * F.smooth_l1_loss({a}, {b})",
    "{a} + F.one_hot({a}.argmax(-1), {n})",
    "{a} + {a}.prod(-1, keepdim=True).tanh()",
    "{a} + {a}.isfinite().to({a}.dtype)",
    "{p}({a}) @nn.Linear({n}, {n})",
    "{p}({a}) @nn.LayerNorm({n})",
    "{p}({a}) @nn.RMSNorm({n})",
    "{p}({a}) @nn.PReLU()",
    "{a} * {p} @nn.Parameter(torch.rand({n}))",
    "torch.gather({a}, -1, {a}.argsort(-1))",
    "{a}.index_select(-1, torch.arange({n} - 1, -1, -1))",
    "torch.zeros_like({a}).copy_({b}).add_({a})",
    "{a}.index_add(-1, torch.zeros({n}, dtype=torch.long), {b}, alpha=0.1)",
    "torch.einsum('...i,...j->...i', {a}, {b}) / {n}",
)
ROWS = (
    "{a} @ {b}.T @ {a} / {n}",
    "torch.addmm({a}, {a} @ {b}.T, {b}) / {n}",
    "torch.cdist({a}.float(), {b}.float()).to({a}.dtype) @ {a} / {n}",
    "{p}({a}, {b}) @nn.Bilinear({n}, {n}, {n})",
    "F.scaled_dot_product_attention({a}, {b}, {a})",
    "torch.softmax({a} @ {b}.T, -1) @ {a}",
    "torch.softmax({a} @ {b}.T + torch.full(({m}, {m}), torch.finfo({a}.dtype).min, dtype={a}.dtype).triu(1), -1) @ {a}",
    "torch.softmax(({a} @ {b}.T).masked_fill(torch.ones({m}, {m}).triu(1) > 0, -1e4), -1) @ {a}",
    "{a} * F.cross_entropy({a}, torch.arange({m}) % {n})",
    "F.embedding({a}.argmax(-1) % {m}, {b})",
    "{a}.T.contiguous().T",
)
SEQUENCE = (
    "{p}({a}, {a}, {b})[0] @nn.MultiheadAttention({n}, 2, batch_first=True)",
    "{p}({a})[0] @nn.GRU({n}, {n}, batch_first=True)",
    "{p}({a})[0] @nn.LSTM({n}, {n}, batch_first=True)",
    "F.scaled_dot_product_attention({a}, {b}, {b}, is_causal=True)",
    "{p}({a}, {a}, {a}, attn_mask=torch.ones({m}, {m}).triu(1) > 0)[0] @nn.MultiheadAttention({n}, 2, batch_first=True)",
    "torch.bmm({a}, {b}.transpose(1, 2)) @ {b} / {n}",
    "{p}({a}) @nn.Conv1d({m}, {m}, 3, padding=1)",
    "{p}({a}) @nn.BatchNorm1d({m})",
    "{p}({a}) @nn.TransformerEncoderLayer({n}, 2, 16, batch_first=True)",
    "F.avg_pool1d({a}, 3, 1, 1)",
    "F.max_pool1d({a}, 3, 1, 1)",
)
IMAGE = (
    "{p}({a}) @nn.Conv2d(4, 4, 3, padding=1)",
    "{p}({a}) @nn.ConvTranspose2d(4, 4, 3, padding=1)",
    "{p}({a}) @nn.BatchNorm2d(4)",
    "{p}({a}) @nn.GroupNorm(2, 4)",
    "{p}({a}) @nn.InstanceNorm2d(4)",
    "F.max_pool2d({a}, 3, 1, 1)",
    "F.avg_pool2d({a}, 3, 1, 1)",
    "{a} * F.adaptive_avg_pool2d({a}, 1)",
    "{a} + F.adaptive_max_pool2d({a}, 1)",
    "F.interpolate(F.avg_pool2d({a}, 2), size=({m}, {n}), mode='nearest')",
    "F.interpolate({a}, scale_factor=2, mode='bilinear')[..., :{m}, :{n}]",
    "F.pad({a}, (1, 1, 1, 1), mode='reflect')[..., 1:-1, :-2]",
    "F.pixel_shuffle({a}, 2).reshape({a}.shape)",
    "F.local_response_norm({a}.float(), 2).to({a}.dtype)",
    "F.fold(F.unfold({a}, 3, padding=1), ({m}, {n}), 3, padding=1) / 9",
    "F.grid_sample({a}.float(), F.affine_grid(torch.tensor([[[1, 0.2, 0.1], [-0.2, 0.9, 0]]]), (1, 4, {m}, {n}))).to({a}.dtype)",
    "F.grid_sample({a}.float(), {b}[:, :2].movedim(1, 3).float().tanh() * 1.2, 'bilinear', 'border', True).to({a}.dtype)",
    "F.interpolate({a}, size=({m}, {n}), mode='bicubic', align_corners=True)",
    "{a} * F.softmax({a}, 1)",
    "{a} - {a}.mean((2, 3), keepdim=True)",
)
KINDS = {"rows": ((6, 8), ROWS), "sequence": ((2, 6, 8), SEQUENCE), "image": ((1, 4, 8, 10), IMAGE)}

TEXT = """\
import torch
from torch import nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{layers}        self.to(torch.{dtype})

    def forward(self, x, y):
{statements}        return {returned}


def get_inputs():
    return [torch.randn({shape}).to(torch.{dtype}), torch.randn({shape}).to(torch.{dtype})]
"""


def draw(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield a name and a text for each module; each takes the operations that were used least so far."""
    chance, uses = random.Random(seed), dict[str, int]()
    for number in range(count):
        kind, dtype = list(KINDS)[number % len(KINDS)], DTYPES[number // len(KINDS) % len(DTYPES)]
        shape, own = KINDS[kind]
        layers, statements, values = [], [], ["x", "y"]
        for place in range(chance.randint(2, 6)):
            pool = own if chance.random() < 0.4 else ANY
            operation = min(pool, key=lambda each: (uses.get(each, 0), chance.random()))
            uses[operation] = uses.get(operation, 0) + 1
            names = {"a": values[-1], "b": chance.choice(values), "m": shape[-2], "n": shape[-1], "p": f"self.p{place}"}
            expression, _, layer = operation.partition(" @nn.")
            statements.append(f"        v{place} = {expression.format(**names)}\n")
            layers += [f"        self.p{place} = nn.{layer.format(**names)}\n"] if layer else []
            values.append(f"v{place}")
        yield (
            f"m{number:03}-{kind}-{dtype}",
            TEXT.format(
                layers="".join(layers), statements="".join(statements), returned=values[-1], dtype=dtype, shape=shape
            ),
        )
