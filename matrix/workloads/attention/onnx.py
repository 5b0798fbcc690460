import math

import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
attention (
    float[{B}, {H}, {S}, {D}] q, float[{B}, {H}, {S}, {D}] k, float[{B}, {H}, {S}, {D}] v
) => (float[{B}, {H}, {S}, {D}] y)
<int64[2] square = {{{S}, {S}}}, float scale = {{{scale}}}, float lowest = {{-3.4028234e38}}>
{{
    kt = Transpose <perm = [0, 1, 3, 2]>(k)
    dots = MatMul(q, kt)
    scores = Mul(dots, scale)
    ones = ConstantOfShape <value = bool[1] {{1}}>(square)
    causal = Trilu <upper = 0>(ones)
    masked = Where(causal, scores, lowest)
    weights = Softmax <axis = -1>(masked)
    y = MatMul(weights, v)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims, scale=1 / math.sqrt(dims["D"])))
