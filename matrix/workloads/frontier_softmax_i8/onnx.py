import onnx
from onnx import parser

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
frontier_softmax_i8 (int8[{M}, {N}] x) => (int8[{M}, {N}] y)
<float logit = {{0.0625}}, float step = {{0.00390625}}, int8 zero = {{0}}, int8 least = {{-128}}>
{{
    logits = DequantizeLinear (x, logit, zero)
    shares = Softmax <axis = -1>(logits)
    y = QuantizeLinear (shares, step, least)
}}
"""


def workload(dims: dict[str, int]) -> onnx.ModelProto:
    return parser.parse_model(MODEL.format(**dims))
