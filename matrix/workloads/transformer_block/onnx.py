import math

import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
transformer_block (
    float[{B}, {S}, {E}] x, float[{E}] ln1_w, float[{E}] ln1_b,
    float[{E}, {Q}] qkv_w, float[{Q}] qkv_b, float[{E}, {E}] out_w, float[{E}] out_b,
    float[{E}] ln2_w, float[{E}] ln2_b,
    float[{E}, {F}] up_w, float[{F}] up_b, float[{F}, {E}] down_w, float[{E}] down_b
) => (float[{B}, {S}, {E}] y)
<
    int64[4] heads = {{{B}, {S}, {H}, {D}}}, int64[3] joined = {{{B}, {S}, {E}}}, int64[2] square = {{{S}, {S}}},
    float scale = {{{scale}}}, float lowest = {{-3.4028234e38}}
>
{{
    n1 = LayerNormalization <axis = -1, epsilon = 1e-5>(x, ln1_w, ln1_b)
    qkv0 = MatMul(n1, qkv_w)
    qkv = Add(qkv0, qkv_b)
    q0, k0, v0 = Split <axis = -1, num_outputs = 3>(qkv)
    q1 = Reshape(q0, heads)
    k1 = Reshape(k0, heads)
    v1 = Reshape(v0, heads)
    q = Transpose <perm = [0, 2, 1, 3]>(q1)
    kt = Transpose <perm = [0, 2, 3, 1]>(k1)
    v = Transpose <perm = [0, 2, 1, 3]>(v1)
    dots = MatMul(q, kt)
    scores = Mul(dots, scale)
    ones = ConstantOfShape <value = bool[1] {{1}}>(square)
    causal = Trilu <upper = 0>(ones)
    masked = Where(causal, scores, lowest)
    weights = Softmax <axis = -1>(masked)
    mixed0 = MatMul(weights, v)
    mixed1 = Transpose <perm = [0, 2, 1, 3]>(mixed0)
    mixed = Reshape(mixed1, joined)
    out0 = MatMul(mixed, out_w)
    out = Add(out0, out_b)
    x1 = Add(x, out)
    n2 = LayerNormalization <axis = -1, epsilon = 1e-5>(x1, ln2_w, ln2_b)
    up0 = MatMul(n2, up_w)
    up = Add(up0, up_b)
    gate = Sigmoid(up)
    hidden = Mul(up, gate)
    down0 = MatMul(hidden, down_w)
    down = Add(down0, down_b)
    y = Add(x1, down)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims, scale=1 / math.sqrt(dims["D"])))
